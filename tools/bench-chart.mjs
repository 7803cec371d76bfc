// The chart of docs/performance.md: CPU seconds against GPUs, from the last line of a history of tools/bench that has
// both curves.
//   node tools/bench-chart.mjs [docs/bench-history.jsonl] > docs/performance.svg
import {readFileSync} from 'node:fs';

const history = process.argv[2] ?? 'docs/bench-history.jsonl';
const curves = [
  {series: 'folded', label: 'folded', colour: '#1a6fb5'},
  {series: 'unfolded', label: 'every rank played (--no-fold)', colour: '#c2571a'},
];
const points = (run, series) => run.cases.filter((c) => c.series === series).sort((a, b) => a.gpus - b.gpus);
const run = readFileSync(history, 'utf8').trim().split('\n').map((line) => JSON.parse(line))
  .filter((r) => curves.every(({series}) => points(r, series).length > 1)).at(-1);
if (!run) {
  console.error(`bench-chart: no line of ${history} has both curves; run tools/bench`);
  process.exit(2);
}

const size = {width: 720, height: 440};
const plot = {left: 70, right: 700, top: 50, bottom: 380};
const all = curves.flatMap(({series}) => points(run, series));
const decade = (values, round) => 10 ** round(Math.log10(values));
const x = {
  from: Math.min(...all.map((c) => c.gpus)) / 1.5, to: Math.max(...all.map((c) => c.gpus)) * 1.5,
  ticks: [...new Set(all.map((c) => c.gpus))].sort((a, b) => a - b),
};
const y = {
  from: decade(Math.min(...all.map((c) => c.cpu_s)), Math.floor),
  to: decade(Math.max(...all.map((c) => c.cpu_s)), Math.ceil), ticks: [],
};
for (let t = y.from; t <= y.to * 1.001; t *= 10) y.ticks.push(t);
const along = (axis, value) => Math.log(value / axis.from) / Math.log(axis.to / axis.from);
const px = (gpus) => (plot.left + along(x, gpus) * (plot.right - plot.left)).toFixed(1);
const py = (seconds) => (plot.bottom - along(y, seconds) * (plot.bottom - plot.top)).toFixed(1);
const seconds = (s) => `${Number(s.toPrecision(2))} s`;

const out = [
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${size.width} ${size.height}" font-family="sans-serif" font-size="13">`,
  `<rect width="${size.width}" height="${size.height}" fill="white"/>`,
  `<text x="${plot.left}" y="26" font-size="15">CPU seconds of a whole command, Llama 3 405B on a fat-tree of four tiers</text>`,
];
for (const t of y.ticks) {
  out.push(`<line x1="${plot.left}" x2="${plot.right}" y1="${py(t)}" y2="${py(t)}" stroke="#ddd"/>`,
    `<text x="${plot.left - 8}" y="${+py(t) + 4}" text-anchor="end">${seconds(t)}</text>`);
}
for (const t of x.ticks) {
  out.push(`<line x1="${px(t)}" x2="${px(t)}" y1="${plot.top}" y2="${plot.bottom}" stroke="#eee"/>`,
    `<text x="${px(t)}" y="${plot.bottom + 20}" text-anchor="middle">${t.toLocaleString('en-US')}</text>`);
}
out.push(`<text x="${(plot.left + plot.right) / 2}" y="${plot.bottom + 42}" text-anchor="middle">GPUs</text>`);
for (const {series, label, colour} of curves) {
  const line = points(run, series);
  out.push(`<polyline fill="none" stroke="${colour}" stroke-width="2" points="${line.map((c) => `${px(c.gpus)},${py(c.cpu_s)}`).join(' ')}"/>`);
  for (const c of line) {
    out.push(`<circle cx="${px(c.gpus)}" cy="${py(c.cpu_s)}" r="4" fill="${colour}"/>`,
      `<text x="${px(c.gpus)}" y="${+py(c.cpu_s) - 10}" text-anchor="middle" font-size="11" fill="${colour}">${seconds(c.cpu_s)}</text>`);
  }
  const row = plot.top + 16 + 20 * curves.findIndex((c) => c.series === series);
  out.push(`<line x1="${plot.left + 14}" x2="${plot.left + 40}" y1="${row}" y2="${row}" stroke="${colour}" stroke-width="2"/>`,
    `<text x="${plot.left + 48}" y="${row + 4}">${label}</text>`);
}
out.push(`<text x="${plot.right}" y="${size.height - 6}" text-anchor="end" font-size="11" fill="#666">${run.machine}, medians of ${run.runs}, commit ${run.commit}, ${run.date.slice(0, 10)}</text>`, '</svg>');
console.log(out.join('\n'));
