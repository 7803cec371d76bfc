#include "topology/builders/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace foretrain {
namespace {

void check_oversubscription(double ratio) {
  // A network built larger than its servers (below 1) is odd but real; below a tenth it is a mistake in units.
  if (!(ratio >= 0.1 && ratio <= 1e6)) {
    throw std::invalid_argument(fmt::format("oversubscription is {}; allowed: 0.1 to 1000000 (1 = none)", ratio));
  }
}

}  // namespace

void check_node(const NodeSpec& spec) {
  if (spec.gpus == 0 || spec.gpus > 65536) {
    throw std::invalid_argument(fmt::format("a node has {} GPUs; allowed: 1 to 65536", spec.gpus));
  }
  if (spec.nics == 0 || spec.nics > 65536 || (spec.gpus % spec.nics != 0 && spec.nics % spec.gpus != 0)) {
    throw std::invalid_argument(
        fmt::format("a node has {} NICs for {} GPUs; allowed: a number that divides that of the GPUs or is a multiple "
                    "of it",
                    spec.nics, spec.gpus));
  }
  check_shape(spec);
  std::uint32_t before = 0;
  for (const OtherNodes& other : spec.others) {
    if (other.node.gpus != spec.gpus || other.node.nics != spec.nics) {
      throw std::invalid_argument(
          fmt::format("servers of {} GPUs and {} NICs beside such of {} and {}; allowed: the same "
                      "numbers in all",
                      other.node.gpus, other.node.nics, spec.gpus, spec.nics));
    }
    if (other.from <= before) {
      throw std::invalid_argument(
          fmt::format("servers of another make from number {} on after such from number {} on; "
                      "allowed: ascending, 1 or more",
                      other.from, before));
    }
    before = other.from;
    check_shape(other.node);
  }
}

const NodeSpec& make_of(const NodeSpec& spec, std::uint32_t node) {
  const NodeSpec* make = &spec;
  for (const OtherNodes& other : spec.others) {
    if (other.from <= node) make = &other.node;
  }
  return *make;
}

NodeSpec without_first(const NodeSpec& spec, std::uint32_t count) {
  NodeSpec rest = make_of(spec, count);
  rest.others.clear();
  for (const OtherNodes& other : spec.others) {
    if (other.from > count) rest.others.push_back({other.from - count, other.node});
  }
  return rest;
}

Bandwidth fastest_nic(const NodeSpec& spec) {
  Bandwidth fastest = spec.nic;
  for (const OtherNodes& other : spec.others) fastest = std::max(fastest, other.node.nic);
  return fastest;
}

void connect(FabricBuilder& fabric, const NicPort& port, VertexId to, TierId tier) {
  fabric.connect(port.nic, to, port.rate, port.latency, tier);
}

std::vector<std::uint32_t> fill_nodes(const NodeSpec& spec, std::uint32_t gpus) {
  check_node(spec);
  if (gpus == 0) {
    throw std::invalid_argument("the fabric has 0 GPUs; allowed: 1 or more");
  }
  constexpr std::uint32_t most = 1U << 22;
  if (gpus > most) {
    throw std::invalid_argument(fmt::format("the fabric has {} GPUs; the most is {}", gpus, most));
  }
  if (gpus < spec.gpus) {
    return {gpus};
  }
  if (gpus % spec.gpus != 0) {
    throw std::invalid_argument(fmt::format(
        "the fabric has {} GPUs in nodes of {}; allowed: a multiple of {}, or fewer", gpus, spec.gpus, spec.gpus));
  }
  return std::vector<std::uint32_t>(gpus / spec.gpus, spec.gpus);
}

ClosTiers declare_tiers(FabricBuilder& fabric) {
  return {.nvlink = fabric.tier("nvlink"),
          .pcie = fabric.tier("pcie"),
          .nic = fabric.tier("nic"),
          .leaf_spine = fabric.tier("leaf-spine")};
}

std::vector<VertexId> add_switches(FabricBuilder& fabric, VertexKind kind, std::uint32_t count) {
  std::vector<VertexId> switches(count);
  for (VertexId& it : switches) {
    it = fabric.add(kind);
  }
  return switches;
}

Bandwidth uplink_bandwidth(Bandwidth down, std::uint32_t cables, double oversubscription) {
  check_oversubscription(oversubscription);
  return scaled(down, 1.0 / (oversubscription * cables));
}

Uplinks plan_uplinks(Bandwidth down, std::uint32_t ports, double oversubscription) {
  check_oversubscription(oversubscription);
  // 6 / 1.2 is a hair above 5 in binary: do not pay a sixth cable for that.
  const double cables = std::ceil(ports / oversubscription - 1e-9);
  const auto count = static_cast<std::uint32_t>(std::max(1.0, cables));
  return {.cables = count, .each = uplink_bandwidth(down, count, oversubscription)};
}

}  // namespace foretrain
