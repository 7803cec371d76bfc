#include "tests/bench/expansion_cases.h"

#include <algorithm>

#include "sim/expansion.h"
#include "topology/builders/builders.h"

namespace foretrain::bench {
namespace {

constexpr std::uint32_t tensor_ranks = 8;
constexpr std::uint32_t expert_ranks = 64;

/// Ranks first, first + stride, ...: one communicator, the next slot of each of them.
void add_group(Job& job, std::uint8_t dimension, std::uint32_t first, std::uint32_t stride, std::uint32_t count) {
  const auto id = id_at<CommunicatorId>(job.communicators.size());
  Communicator& communicator = job.communicators.emplace_back();
  communicator.dimension = dimension;
  communicator.members.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    communicator.members.push_back(RankId{first + i * stride});
    job.ranks[first + i * stride].slots.push_back(id);
  }
}

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
  job.ranks.resize(gpus);
  for (std::uint32_t r = 0; r < gpus; ++r) job.placement.push_back(GpuId{r});
  for (std::uint32_t r = 0; r < gpus; r += tensor_ranks) add_group(job, 0, r, 1, tensor_ranks);
  for (std::uint32_t r = 0; r < tensor_ranks; ++r) add_group(job, 1, r, tensor_ranks, gpus / tensor_ranks);
  const std::uint32_t experts = std::min(gpus, expert_ranks);
  for (std::uint32_t r = 0; r < gpus; r += experts) add_group(job, 2, r, 1, experts);
  return job;
}

Expanded expand_expert_job(const Fabric& fabric, const Job& job, Routing routing) {
  SimulateOptions options;
  options.routing = routing;
  options.forced.algorithm = Algorithm::ring;  // reaches all but the all-to-alls
  const Expansion expansion = expand(fabric, Transport{}, job, options);
  return {expansion.calls.size(), expansion.usage.size(), expansion.resources.links.size()};
}

}  // namespace foretrain::bench
