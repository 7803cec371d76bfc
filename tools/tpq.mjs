// node tpq.mjs TRACE 'SQL'...   prints TSV; exit 1 on SQL error or on any trace_processor error/data_loss stat
import {readFileSync} from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';
import {pathToFileURL} from 'node:url';
const dir = path.resolve(process.env.TP_DIR ?? 'build/trace-processor');
const [trace, ...queries] = process.argv.slice(2);
// the glue expects to live in a web worker
for (const [k, v] of Object.entries({self: globalThis, WorkerGlobalScope: class {}, location: {href: pathToFileURL(dir) + '/'}}))
  Object.defineProperty(globalThis, k, {value: v, writable: true, configurable: true});
globalThis.tpWasm = new Uint8Array(readFileSync(path.join(dir, 'trace_processor.wasm')));
let glue = readFileSync(path.join(dir, 'engine_bundle.node.js'), 'utf8');
const patch = (from, to) => { if (!glue.includes(from)) throw Error('glue changed: ' + from); glue = glue.replace(from, () => to); };
patch('this.useMemory64 = hasMemory64Support();', 'this.useMemory64 = false;');           // only the 32-bit wasm ships
patch('onRuntimeInitialized: () =>', 'wasmBinary: globalThis.tpWasm, onRuntimeInitialized: () =>');
patch('const wasmBridge = new', 'const wasmBridge = globalThis.tpBridge = new');
const warn = console.warn;
console.warn = (...a) => /Unexpected QueryResult field|syscall_mprotect|Loading trace|^\s*$/.test(String(a[0])) || warn(...a);
const {EngineBase} = await import(pathToFileURL(path.join(dir, 'engine.mjs')));
vm.runInThisContext(glue, {filename: 'engine_bundle.node.js'});
const bridge = globalThis.tpBridge;
while (!bridge.reqBufferAddr) await new Promise(r => setTimeout(r, 5));                    // wasm started
const {port1, port2} = new MessageChannel();
bridge.initialize(port1);
class Engine extends EngineBase {
  mode = 'WASM'; id = 'tp';
  constructor() { super(); port2.onmessage = m => this.onRpcResponseBytes(m.data); }
  rpcSendRequestBytes(d) { port2.postMessage(d); }
}
const tp = new Engine();
async function rows(sql) {
  const r = await tp.query(sql);
  if (r.error()) throw Error(r.error());
  const cols = r.columns(), out = [cols];
  for (const it = r.iter({}); it.valid(); it.next()) out.push(cols.map(c => String(it.get(c))));
  return out;
}
let rc = 0;
try {
  const bytes = new Uint8Array(readFileSync(trace));
  for (let o = 0; o < bytes.length; o += 32 << 20) await tp.parse(bytes.subarray(o, o + (32 << 20)));   // one RPC frame must stay < 64 MiB
  await tp.notifyEof();
  const bad = await rows("select name, value from stats where value > 0 and severity in ('error', 'data_loss')");
  if (bad.length > 1) { rc = 1; console.error('import problems:', bad.slice(1).map(b => b.join('=')).join(' ')); }
  for (const q of queries) console.log((await rows(q)).map(r => r.join('\t')).join('\n'));
} catch (e) { rc = 1; console.error(String(e.message ?? e)); }
process.exit(rc);
