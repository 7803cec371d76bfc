// The one place that knows which builder makes which shape.
#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "scenarios/sections.h"

namespace foretrain {
namespace {

std::int64_t product(const std::vector<std::uint32_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, [](std::int64_t all, std::uint32_t extent) {
    return std::min(all * static_cast<std::int64_t>(extent), gpus_most + 1);
  });
}

struct Build {
  std::uint32_t gpus;
  Fabric operator()(RailSpec spec) const {
    spec.gpus = gpus;
    return build_rail_optimised(spec);
  }
  Fabric operator()(FatTreeSpec spec) const {
    spec.gpus = gpus;
    return build_fat_tree(spec);
  }
  Fabric operator()(MetaClosSpec spec) const {
    spec.gpus = gpus;
    return build_meta_clos(spec);
  }
  Fabric operator()(const TorusSpec& spec) const {
    if (product(spec.shape) != gpus)
      throw std::invalid_argument("a torus has the GPUs of its shape, no more, no fewer");
    return build_torus(spec);
  }
};

struct Capacity {
  std::optional<std::int64_t> operator()(const RailSpec&) const { return std::nullopt; }
  std::optional<std::int64_t> operator()(const FatTreeSpec& spec) const {
    return static_cast<std::int64_t>(
        std::min<std::uint64_t>(fat_tree_capacity(spec), static_cast<std::uint64_t>(gpus_most)));
  }
  std::optional<std::int64_t> operator()(const MetaClosSpec& spec) const {
    return std::int64_t{spec.gpus_per_rack} * spec.racks_per_pod * spec.pods;
  }
  std::optional<std::int64_t> operator()(const TorusSpec& spec) const { return product(spec.shape); }
};

struct NodeGpus {
  std::int64_t operator()(const TorusSpec&) const { return 1; }
  template <class Spec>
  std::int64_t operator()(const Spec& spec) const {
    return spec.node.gpus;
  }
};

}  // namespace

Fabric build_fabric(const Cluster& cluster, std::int64_t gpus) {
  return std::visit(Build{static_cast<std::uint32_t>(gpus)}, cluster.fabric);
}

std::optional<std::int64_t> shape_capacity(const FabricSpec& fabric) { return std::visit(Capacity{}, fabric); }

std::int64_t gpus_per_node(const FabricSpec& fabric) { return std::visit(NodeGpus{}, fabric); }

}  // namespace foretrain
