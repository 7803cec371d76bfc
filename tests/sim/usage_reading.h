// Reading usage vectors in tests: wire bytes by vertex and tier, and the rate that links allow.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

#include "sim/collectives/collective.h"
#include "sim/collectives/tuner.h"

namespace foretrain {

/// A fabric with its router and the numbers of a transport, and one algorithm's usage of them.
struct Ground {
  Ground(Fabric f, Transport t, Routing routing = Routing::spread)
      : fabric(std::move(f)), router(make_router(routing, fabric, 1)), transport(t) {}
  Fabric fabric;
  std::unique_ptr<Router> router;
  Transport transport;

  [[nodiscard]] CollectiveContext context() const { return {fabric, *router, transport}; }
  [[nodiscard]] GroupShape shape(const std::vector<GpuId>& group) const {
    return shape_of(fabric, GroupLayout(fabric, group));
  }
  [[nodiscard]] bool supports(Algorithm how, Collective op, const std::vector<GpuId>& group) const {
    return algorithm(how).supports(op, Protocol::simple, shape(group), transport);
  }
  [[nodiscard]] std::vector<Usage> usage(Algorithm how, Collective op, const std::vector<GpuId>& group) const {
    return algorithm(how).usage(op, Protocol::simple, GroupLayout(fabric, group), context());
  }
  [[nodiscard]] std::string_view tier(const Link& link) const { return fabric.tiers()[link.tier.index()].name; }

  /// Wire bytes out of and into a vertex, on links of one tier or (empty) of all.
  [[nodiscard]] double out_of(const std::vector<Usage>& usage, VertexId vertex, std::string_view of_tier = {}) const {
    double sum = 0;
    for (const Usage& use : usage) {
      const Link& link = fabric.link(use.link);
      if (link.from == vertex && (of_tier.empty() || tier(link) == of_tier)) sum += use.wire;
    }
    return sum;
  }
  [[nodiscard]] double into(const std::vector<Usage>& usage, VertexId vertex, std::string_view of_tier = {}) const {
    double sum = 0;
    for (const Usage& use : usage) {
      const Link& link = fabric.link(use.link);
      if (link.to == vertex && (of_tier.empty() || tier(link) == of_tier)) sum += use.wire;
    }
    return sum;
  }
  [[nodiscard]] double out_of(const std::vector<Usage>& usage, GpuId gpu, std::string_view of_tier = {}) const {
    return out_of(usage, fabric.vertex_of(gpu), of_tier);
  }
  [[nodiscard]] double into(const std::vector<Usage>& usage, GpuId gpu, std::string_view of_tier = {}) const {
    return into(usage, fabric.vertex_of(gpu), of_tier);
  }
  [[nodiscard]] double on_tier(const std::vector<Usage>& usage, std::string_view of_tier) const {
    double sum = 0;
    for (const Usage& use : usage) {
      if (tier(fabric.link(use.link)) == of_tier) sum += use.wire;
    }
    return sum;
  }
  /// Message bytes a second that the links allow on an idle network.
  [[nodiscard]] double rate(const std::vector<Usage>& usage) const {
    double least = std::numeric_limits<double>::infinity();
    for (const Usage& use : usage) {
      least = std::min(least, static_cast<double>(fabric.link(use.link).bandwidth.bytes_per_s()) / use.load);
    }
    return least;
  }
  [[nodiscard]] double rate(Algorithm how, Collective op, const std::vector<GpuId>& group) const {
    return rate(usage(how, op, group));
  }
};

/// Links reach their line rate: what remains is the algorithm.
inline Transport perfect_transport() {
  Transport t;
  t.node.ring_rate = t.node.line;
  t.node.nvls_efficiency = 1;
  t.node.p2p_efficiency = 1;
  t.network.efficiency = 1;
  t.network.in_network_reduction = true;
  return t;
}

}  // namespace foretrain
