#include "tests/bench/expansion_cases.h"

#include <algorithm>

#include "sim/expansion.h"
#include "tests/bench/groups.h"
#include "topology/builders/builders.h"

namespace foretrain::bench {
namespace {

constexpr std::uint32_t tensor_ranks = 8;
constexpr std::uint32_t expert_ranks = 64;

}  // namespace

Fabric servers_on_fat_tree(std::uint32_t gpus) {
  FatTreeSpec spec;
  spec.gpus = gpus;
  return build_fat_tree(spec);
}

Job expert_job(std::uint32_t gpus) {
  Job job;
  job.activities = {"compute"};
  job.dimensions = {{"tp", false}, {"dp", false}, {"ep", false}};
  ProgramBuilder program;
  const auto call = [&](std::uint16_t slot, Collective op) {
    program.communicate(main_stream, {.label = "call", .op = op, .size = mebibytes(256), .slot = slot});
  };
  call(0, Collective::all_gather);
  call(1, Collective::reduce_scatter);
  call(2, Collective::all_to_all);
  job.programs.push_back(std::move(program).build());
  add_ranks(job, gpus);
  for (std::uint32_t r = 0; r < gpus; r += tensor_ranks) add_group(job, 0, every(r, 1, tensor_ranks));
  for (std::uint32_t r = 0; r < tensor_ranks; ++r) add_group(job, 1, every(r, tensor_ranks, gpus / tensor_ranks));
  const std::uint32_t experts = std::min(gpus, expert_ranks);
  for (std::uint32_t r = 0; r < gpus; r += experts) add_group(job, 2, every(r, 1, experts));
  return job;
}

Expanded expand_expert_job(const Fabric& fabric, const Job& job, Routing routing) {
  SimulateOptions options;
  options.routing = routing;
  options.forced.algorithm = Algorithm::ring;  // reaches all but the all-to-alls
  const Expansion expansion = expand(fabric, Transport{}, job, options);
  return {expansion.calls.size(), expansion.usage.shapes(), expansion.resources.capacity.size()};
}

}  // namespace foretrain::bench
