// idle_call: one call on an otherwise empty network, in closed form.
#include <limits>

#include "sim/network.h"
#include "sim/simulate.h"

namespace foretrain {

namespace {

struct Bound {
  double rate = std::numeric_limits<double>::infinity();
  std::string limit = "latency";
  std::optional<LinkId> link;
};

/// The slowest of the protocol and the links; the first link at a tie.
Bound bound_of(const Fabric& fabric, std::optional<double> cap, const std::vector<Usage>& usage) {
  Bound bound;
  if (cap) bound = {*cap, "protocol", std::nullopt};
  for (const Usage& use : usage) {
    const Link& link = fabric.link(use.link);
    const double rate = static_cast<double>(link.bandwidth.bytes_per_s()) / use.load;
    if (rate < bound.rate) bound = {rate, fabric.tiers()[link.tier.index()].name, use.link};
  }
  return bound;
}

}  // namespace

IdleCall idle_call(const Fabric& fabric, const Transport& transport, const Router& router, Collective asked,
                   Bytes asked_size, const std::vector<GpuId>& group, const Forced& forced, const Exchange& exchange) {
  const Collective op = played_as(asked);
  const Bytes size = moves_bytes(asked) ? asked_size : Bytes{};
  const GroupLayout layout(fabric, group);
  const GroupShape shape = shape_of(fabric, layout);
  IdleCall call;
  call.choice = choose(op, size, shape, transport, forced);
  call.limit = "latency";
  if (layout.ranks() <= 1) return call;
  const CollectiveAlgorithm& how = algorithm(call.choice.algorithm);
  call.latency = how.latency(op, call.choice.protocol, size, shape, transport);
  const CollectiveContext context{.fabric = fabric, .router = router, .transport = transport, .exchange = exchange};
  const std::vector<Usage> usage = how.usage(op, call.choice.protocol, layout, context);
  const Bound bound = bound_of(fabric, how.rate_cap(op, call.choice.protocol, shape, transport), usage);
  Duration transfer;
  if (size > Bytes{} && bound.rate < std::numeric_limits<double>::infinity()) {
    transfer = fluid_time(static_cast<double>(size.count()), bound.rate);
  }
  call.time = call.latency + transfer;
  if (transfer >= call.latency) {
    call.limit = bound.limit;
    call.link = bound.link;
  }
  return call;
}

}  // namespace foretrain
