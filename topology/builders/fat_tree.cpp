// k-ary fat-tree of two to four tiers. Servers fill the leaves in order, all NICs of a server on one leaf. A leaf has
// one cable to every spine of its pod; spine j of a pod has its cables to the j-th group of cores, one core a cable.
// With two tiers all leaves form one pod and there are no cores. With four, cores have half of their ports upwards: the
// pods under the same cores are a super-pod, and the i-th cores of all super-pods share the i-th group of switches at
// the top (kind core, too), one a cable. The leaves that hold servers are built, the spines of their pods, the cores of
// their super-pods and all above.
//
//   cores   c0 c1 | c2 c3         group j = the cores of spine j
//   spines  s0      s1            U cables up from each
//   leaves  l0      l1            u cables up from each, one to every spine
//
// Source: Al-Fares, Loukissas, Vahdat, "A scalable, commodity data center network architecture", SIGCOMM 2008: k^3/4
// hosts from k-port switches, k^2/2 edge and aggregation switches, k^2/4 cores. A fourth tier repeats the construction:
// k^4/8 hosts.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "topology/builders/builders.h"
#include "topology/builders/node.h"

namespace foretrain {
namespace {

/// How the ports of a switch divide.
struct Ports {
  std::uint32_t down = 0;
  std::uint32_t up = 0;
};

/// The most down ports, in whole `step`s, that leave `down / ratio` ports upwards.
Ports divide_ports(std::uint32_t radix, double ratio, std::uint32_t step) {
  // down * (1 + 1 / ratio) <= radix; the hair for ratios that binary cannot write, as in plan_uplinks.
  auto down = static_cast<std::uint32_t>(std::floor(radix * ratio / (1 + ratio) + 1e-9)) / step * step;
  const auto up_for = [&](std::uint32_t d) {
    return static_cast<std::uint32_t>(std::max(1.0, std::ceil(d / ratio - 1e-9)));
  };
  while (down > 0 && down + up_for(down) > radix) {
    down -= step;
  }
  return {.down = down, .up = down == 0 ? 0 : up_for(down)};
}

struct Plan {
  Ports leaf;
  Ports spine;  ///< down: leaves a pod; up: cores above each spine (0 with two tiers)
  Ports core;   ///< down: pods a super-pod; up: top switches above each core (0 with less than four tiers)
  std::uint32_t nodes_per_leaf = 0;
  std::uint64_t pods = 0;  ///< at most
};

Plan plan(const FatTreeSpec& spec) {
  check_node(spec.node);
  if (spec.tiers < 2 || spec.tiers > 4) {
    throw std::invalid_argument(fmt::format("a fat-tree has {} tiers; allowed: 2 to 4", spec.tiers));
  }
  // With four tiers 128 ports reach 33 million hosts, and 64^3 switches are at the top.
  const std::uint32_t most_ports = spec.tiers == 4 ? 128 : 1024;
  if (spec.radix < 2 || spec.radix > most_ports) {
    throw std::invalid_argument(fmt::format("switches have {} ports; allowed: 2 to {}", spec.radix, most_ports));
  }
  // Checks the ratios too.
  static_cast<void>(uplink_bandwidth(fastest_nic(spec.node), 1, spec.leaf_oversubscription));
  static_cast<void>(uplink_bandwidth(fastest_nic(spec.node), 1, spec.spine_oversubscription));
  Plan it;
  it.leaf = divide_ports(spec.radix, spec.leaf_oversubscription, spec.node.nics);
  it.nodes_per_leaf = it.leaf.down / spec.node.nics;
  if (it.nodes_per_leaf == 0) {
    throw std::invalid_argument(fmt::format("a node's {} NICs do not fit the down ports of a leaf of {} ports at {}:1",
                                            spec.node.nics, spec.radix, spec.leaf_oversubscription));
  }
  if (spec.tiers == 2) {
    it.spine = {.down = spec.radix, .up = 0};
    it.pods = 1;
  } else {
    it.spine = divide_ports(spec.radix, spec.spine_oversubscription, 1);
    it.core = spec.tiers == 3 ? Ports{.down = spec.radix, .up = 0} : divide_ports(spec.radix, 1, 1);
    // Each pod takes one port of every core of its super-pod, and each super-pod one of every switch at the top.
    it.pods = std::uint64_t{it.core.down} * (spec.tiers == 3 ? 1 : spec.radix);
  }
  return it;
}

/// Builds pod after pod, leaf after leaf, as the servers need them.
class FatTree {
 public:
  FatTree(const FatTreeSpec& spec, const Plan& plan)
      : spec_(spec),
        plan_(plan),
        tiers_(declare_tiers(fabric_)),
        leaf_up_(uplink_bandwidth(fastest_nic(spec.node) * plan.leaf.down, plan.leaf.up, spec.leaf_oversubscription)) {
    if (spec.tiers == 2) return;
    spine_core_ = fabric_.tier("spine-core");
    spine_up_ = uplink_bandwidth(leaf_up_ * plan.spine.down, plan.spine.up, spec.spine_oversubscription);
    if (spec.tiers == 3) return;
    core_top_ = fabric_.tier("core-top");
    core_up_ = uplink_bandwidth(spine_up_ * plan.core.down, plan.core.up, 1);
    top_ = add_switches(fabric_, VertexKind::core, plan.leaf.up * plan.spine.up * plan.core.up);
  }

  /// Where cores have no ways up: all of them.
  void add_super_pod() {
    cores_ = add_switches(fabric_, VertexKind::core, plan_.leaf.up * plan_.spine.up);
    for (std::size_t c = 0; c < cores_.size(); ++c) {
      for (std::size_t t = 0; t < plan_.core.up; ++t) {
        fabric_.connect(cores_[c], top_[c * plan_.core.up + t], core_up_, spec_.cable.latency, core_top_);
      }
    }
  }

  void add_pod() {
    spines_ = add_switches(fabric_, VertexKind::spine, plan_.leaf.up);
    for (std::size_t s = 0; s < spines_.size(); ++s) {
      for (std::size_t c = 0; c < plan_.spine.up; ++c) {
        fabric_.connect(spines_[s], cores_[s * plan_.spine.up + c], spine_up_, spec_.cable.latency, spine_core_);
      }
    }
  }

  void add_leaf() {
    leaf_ = fabric_.add(VertexKind::leaf);
    for (const VertexId spine : spines_) {
      fabric_.connect(leaf_, spine, leaf_up_, spec_.cable.latency, tiers_.leaf_spine);
    }
  }

  void add_server(std::uint32_t gpus) {
    for (const NicPort& port : add_node(fabric_, spec_.node, gpus)) connect(fabric_, port, leaf_, tiers_.nic);
  }

  Fabric build() { return std::move(fabric_).build(); }

 private:
  const FatTreeSpec& spec_;
  const Plan& plan_;
  FabricBuilder fabric_;
  ClosTiers tiers_;
  TierId spine_core_;
  Bandwidth leaf_up_;
  Bandwidth spine_up_;
  TierId core_top_;
  Bandwidth core_up_;
  std::vector<VertexId> top_;
  std::vector<VertexId> cores_;   ///< of the super-pod being built
  std::vector<VertexId> spines_;  ///< of the pod being built
  VertexId leaf_;                 ///< being filled
};

}  // namespace

std::uint64_t fat_tree_capacity(const FatTreeSpec& spec) {
  const Plan it = plan(spec);
  return it.pods * it.spine.down * it.nodes_per_leaf * spec.node.gpus;
}

Fabric build_fat_tree(const FatTreeSpec& spec) {
  const Plan design = plan(spec);
  const std::vector<std::uint32_t> nodes = fill_nodes(spec.node, spec.gpus);
  if (spec.gpus > fat_tree_capacity(spec)) {
    throw std::invalid_argument(
        fmt::format("{} GPUs do not fit a fat-tree of {} tiers of {}-port switches; the most is {}", spec.gpus,
                    spec.tiers, spec.radix, fat_tree_capacity(spec)));
  }
  FatTree tree(spec, design);
  const std::size_t nodes_per_pod = std::size_t{design.nodes_per_leaf} * design.spine.down;
  const std::size_t nodes_per_super_pod = nodes_per_pod * design.core.down;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (nodes_per_super_pod > 0 && n % nodes_per_super_pod == 0) {
      tree.add_super_pod();
    }
    if (n % nodes_per_pod == 0) {
      tree.add_pod();
    }
    if (n % design.nodes_per_leaf == 0) {
      tree.add_leaf();
    }
    tree.add_server(nodes[n]);
  }
  return tree.build();
}

}  // namespace foretrain
