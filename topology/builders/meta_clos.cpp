// Meta's RoCE training cluster: rack switches (built as leaves), cluster switches (spines) and aggregation switches
// (cores). Within a pod every rack switch sends upwards what its servers send it; above the pod 1 of 7 remains.
//
// Source: "The Llama 3 Herd of Models" (arXiv 2407.21783), section 3.3.1: 24K GPUs, 16 a rack switch in two servers,
// 192 racks a pod = 3,072 GPUs at full bisection, 8 pods, aggregation oversubscribed 1:7. The numbers of cluster and
// aggregation switches are not published; the cables between them stand for bundles whose bandwidth follows from the
// ratio. The racks and pods that hold servers are built, each pod with all its cluster switches; bandwidths are those
// of a full pod, however few of its racks are there.

#include <fmt/format.h>

#include <stdexcept>

#include "topology/builders/builders.h"
#include "topology/builders/node.h"

namespace foretrain {
namespace {

void check(const MetaClosSpec& spec) {
  if (spec.gpus_per_rack == 0 || spec.gpus_per_rack % spec.node.gpus != 0) {
    throw std::invalid_argument(fmt::format("a rack has {} GPUs in nodes of {}; allowed: a multiple of {}",
                                            spec.gpus_per_rack, spec.node.gpus, spec.node.gpus));
  }
  if (spec.racks_per_pod == 0 || spec.pods == 0 || spec.cluster_switches == 0 || spec.aggregation_switches == 0 ||
      spec.racks_per_pod > 65536 || spec.pods > 65536 || spec.cluster_switches > 4096 ||
      spec.aggregation_switches > 4096) {
    throw std::invalid_argument(fmt::format(
        "{} racks a pod, {} pods, {} cluster switches, {} aggregation switches; allowed: 1 to 65536 racks and pods, "
        "1 to 4096 switches",
        spec.racks_per_pod, spec.pods, spec.cluster_switches, spec.aggregation_switches));
  }
  const std::uint64_t most = std::uint64_t{spec.gpus_per_rack} * spec.racks_per_pod * spec.pods;
  if (spec.gpus > most) {
    throw std::invalid_argument(fmt::format("{} GPUs do not fit {} pods of {} racks of {} GPUs; the most is {}",
                                            spec.gpus, spec.pods, spec.racks_per_pod, spec.gpus_per_rack, most));
  }
}

/// Every switch of `below` to every switch of `above`.
void connect_all(FabricBuilder& fabric, const std::vector<VertexId>& below, const std::vector<VertexId>& above,
                 Bandwidth each, Duration latency, TierId tier) {
  for (const VertexId low : below) {
    for (const VertexId high : above) {
      fabric.connect(low, high, each, latency, tier);
    }
  }
}

}  // namespace

Fabric build_meta_clos(const MetaClosSpec& spec) {
  const std::vector<std::uint32_t> nodes = fill_nodes(spec.node, spec.gpus);
  check(spec);
  const std::uint32_t nodes_per_rack = spec.gpus_per_rack / spec.node.gpus;
  const Bandwidth rack_down = fastest_nic(spec.node) * (std::int64_t{nodes_per_rack} * spec.node.nics);
  const Bandwidth rack_up = uplink_bandwidth(rack_down, spec.cluster_switches, 1);
  const Bandwidth cluster_up =
      uplink_bandwidth(rack_up * spec.racks_per_pod, spec.aggregation_switches, spec.aggregation_oversubscription);
  FabricBuilder fabric;
  const ClosTiers tiers = declare_tiers(fabric);
  const TierId spine_core = fabric.tier("spine-core");
  const std::vector<VertexId> aggregation = add_switches(fabric, VertexKind::core, spec.aggregation_switches);
  std::vector<VertexId> cluster;
  VertexId rack;
  const std::size_t nodes_per_pod = std::size_t{nodes_per_rack} * spec.racks_per_pod;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (n % nodes_per_pod == 0) {
      cluster = add_switches(fabric, VertexKind::spine, spec.cluster_switches);
      connect_all(fabric, cluster, aggregation, cluster_up, spec.cable.latency, spine_core);
    }
    if (n % nodes_per_rack == 0) {
      rack = fabric.add(VertexKind::leaf);
      connect_all(fabric, {rack}, cluster, rack_up, spec.cable.latency, tiers.leaf_spine);
    }
    for (const NicPort& port : add_node(fabric, spec.node, nodes[n])) connect(fabric, port, rack, tiers.nic);
  }
  return std::move(fabric).build();
}

}  // namespace foretrain
