#include "tools/output/schedule_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "tools/output/human.h"

namespace foretrain {
namespace {

std::vector<std::int64_t> stages_of(const PipelineShape& shape, std::int64_t rank) {
  std::vector<std::int64_t> stages;
  stages.reserve(static_cast<std::size_t>(shape.chunks));
  for (std::int32_t chunk = 0; chunk < shape.chunks; ++chunk) stages.push_back(stage_of(shape, rank, chunk));
  return stages;
}

/// Times have the user's unit: 21, 21.5, 1234.57.
std::string number_text(double value) { return fmt::format("{:.6g}", value); }

double block_time(const PassTimes& times) { return times.block.value_or(times.forward + times.backward()); }

}  // namespace

std::string schedule_text(const PlayedSchedule& it) {
  const double makespan = it.play.makespan();
  std::string text = fmt::format("Schedule  {}: {} ranks, {} stages, {} microbatches", to_text(it.spec.kind),
                                 it.shape.ranks, stage_count(it.shape), it.shape.microbatches);
  if (it.shape.chunks > 1) text += fmt::format(", {} chunks a rank ({})", it.shape.chunks, to_text(it.shape.placement));
  if (runs_in_groups(it.spec.kind) && it.shape.chunks > 1) text += fmt::format(", groups of {}", it.shape.group);
  text += fmt::format("\nTimes     of a chunk: F {}, I {}, W {}, B {}, overlapped block {}; message {}\n",
                      it.times.forward, it.times.backward_input, it.times.backward_weight, it.times.backward(),
                      block_time(it.times), it.times.latency);
  text += fmt::format("Step      {}; bubble {} of it; longest span of a rank {}\n", number_text(makespan),
                      human_percent(it.play.bubble_fraction()), number_text(it.play.longest_span()));
  text += "Verified  complete, free of deadlock, within its activation budget\n\n";
  text += fmt::format("{:>5} {:>10} {:>10} {:>9} {:>6} {:>8} {:>7}  {}\n", "rank", "work", "idle", "bubble", "peak",
                      "until I", "budget", "stages");
  for (std::size_t r = 0; r < it.play.ranks.size(); ++r) {
    const PlayedRank& rank = it.play.ranks[r];
    const double idle = makespan - rank.work;
    const auto number = static_cast<std::int64_t>(r);
    text += fmt::format("{:>5} {:>10} {:>10} {:>9} {:>6} {:>8} {:>7}  {}\n", r, number_text(rank.work),
                        number_text(idle), human_percent(makespan > 0 ? idle / makespan : 0), rank.peak,
                        rank.peak_until_input, activation_budget(it.spec, it.shape, number),
                        clipped(fmt::format("{}", fmt::join(stages_of(it.shape, number), ", ")), 30));
  }
  return text +
         "\npeak: most (chunk, microbatch) pairs whose activations are held; until I: counted to the input gradient\n";
}

std::string schedule_json(const PlayedSchedule& it) {
  using Json = nlohmann::ordered_json;
  Json ranks = Json::array();
  for (std::size_t r = 0; r < it.play.ranks.size(); ++r) {
    const PlayedRank& rank = it.play.ranks[r];
    const auto number = static_cast<std::int64_t>(r);
    ranks.push_back({{"rank", r},
                     {"stages", stages_of(it.shape, number)},
                     {"work", rank.work},
                     {"idle", it.play.makespan() - rank.work},
                     {"span", rank.span()},
                     {"peak", rank.peak},
                     {"peak_until_input", rank.peak_until_input},
                     {"budget", activation_budget(it.spec, it.shape, number)}});
  }
  const Json json = {{"schedule", to_text(it.spec.kind)},
                     {"ranks", it.shape.ranks},
                     {"stages", stage_count(it.shape)},
                     {"chunks", it.shape.chunks},
                     {"placement", to_text(it.shape.placement)},
                     {"microbatches", it.shape.microbatches},
                     {"group", runs_in_groups(it.spec.kind) ? Json(it.shape.group) : Json()},
                     {"times",
                      {{"forward", it.times.forward},
                       {"backward_input", it.times.backward_input},
                       {"backward_weight", it.times.backward_weight},
                       {"block", block_time(it.times)},
                       {"message", it.times.latency}}},
                     {"makespan", it.play.makespan()},
                     {"bubble_fraction", it.play.bubble_fraction()},
                     {"longest_span", it.play.longest_span()},
                     {"by_rank", std::move(ranks)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace foretrain
