// A pod whose accelerators are the leaves of a tree of switches; level by level, `fan_out` children a switch. Switches
// are built as far as accelerators need them; a level with one switch ends the tree early.
//
// Source: NVIDIA H100 Tensor Core GPU architecture white paper (WP-10792), NVLink Switch System: 32 servers of 8 GPUs;
// a GPU has 450 GB/s each way inside its server, and half of that leaves it.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "topology/builders/builders.h"

namespace foretrain {
namespace {

constexpr std::array level_kinds = {VertexKind::leaf, VertexKind::spine, VertexKind::core, VertexKind::router};

void check(const PodTreeSpec& spec) {
  if (spec.levels.empty() || spec.levels.size() > level_kinds.size()) {
    throw std::invalid_argument(
        fmt::format("a pod tree has {} levels; allowed: 1 to {}", spec.levels.size(), level_kinds.size()));
  }
  for (const PodTreeSpec::Level& level : spec.levels) {
    if (level.fan_out == 0 || level.fan_out > 65536) {
      throw std::invalid_argument(fmt::format("a switch has {} children; allowed: 1 to 65536", level.fan_out));
    }
  }
  if (spec.gpus == 0 || spec.gpus > pod_tree_capacity(spec)) {
    throw std::invalid_argument(
        fmt::format("{} GPUs on a pod tree; allowed: 1 to {}", spec.gpus, pod_tree_capacity(spec)));
  }
}

}  // namespace

std::uint64_t pod_tree_capacity(const PodTreeSpec& spec) {
  constexpr std::uint64_t most = 1U << 22;
  std::uint64_t all = 1;
  for (const PodTreeSpec::Level& level : spec.levels) {
    all = std::min(all * level.fan_out, most);
  }
  return all;
}

Fabric build_pod_tree(const PodTreeSpec& spec) {
  check(spec);
  FabricBuilder fabric;
  std::vector<VertexId> children;
  for (std::uint32_t g = 0; g < spec.gpus; ++g) {
    children.push_back(fabric.add(VertexKind::gpu, fabric.node()));
  }
  for (std::size_t l = 0; l < spec.levels.size(); ++l) {
    const PodTreeSpec::Level& level = spec.levels[l];
    const TierId tier = fabric.tier(fmt::format("level{}", l + 1));
    std::vector<VertexId> switches;
    for (std::size_t c = 0; c < children.size(); ++c) {
      if (c % level.fan_out == 0) {
        switches.push_back(fabric.add(level_kinds.at(l)));
      }
      fabric.connect(children[c], switches.back(), level.bandwidth, level.latency, tier);
    }
    children = std::move(switches);
    if (children.size() == 1) {
      break;
    }
  }
  return std::move(fabric).build();
}

}  // namespace foretrain
