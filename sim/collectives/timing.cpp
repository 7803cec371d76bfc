#include "sim/collectives/timing.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/collectives/double_tree.h"
#include "sim/collectives/torus_box.h"

namespace foretrain::timing {

namespace {

// Launch is fitted on nodes of 8 GPUs; a chain up and down a node is 2 x 0.6 us shorter for each GPU fewer: NCCL's LL
// step on NVLink (src/graph/tuning.cc, 2.30).
constexpr double fitted_gpus = 8;
constexpr double launch_per_gpu_ps = 1.2e6;
// All-gather and reduce-scatter over nodes: a step of the ring inside the node. Fitted, see docs/collectives.md.
constexpr double gather_step_ps = 2.0e6;
// What part of the ring's bandwidth remains: a tree's two-way chain (also in NCCL's model), a ring of LL128's 120 in
// 128 bytes measured on more than 8 GPUs a node, LL128 of all-gather and reduce-scatter between nodes.
constexpr double ring_ll128_part = 0.98;
constexpr double gather_ll128_part = 0.88;
constexpr double nvls_across_part = 0.92;
// PAT in NCCL's table (src/graph/tuning.cc, 2.30): log2(N) network steps, of which one in 3.5 is not hidden by others
// in flight, and 2.8 us a rank.
constexpr double pat_overlap = 3.5;
constexpr double pat_per_rank_ps = 2.8e6;
constexpr double nvls_full_chunk = 64.0 * 1024 * 1024;  ///< bytes from which NVLS chunks are at their largest

double ps(Duration d) { return static_cast<double>(d.ps()); }
double rate(Bandwidth b) { return static_cast<double>(b.bytes_per_s()); }
bool gathers(Collective op) { return op == Collective::all_gather || op == Collective::reduce_scatter; }
double ranks(const GroupShape& shape) { return static_cast<double>(shape.ranks); }
double nodes(const GroupShape& shape) { return static_cast<double>(shape.nodes); }

/// Goodput of all NICs of a node; unbounded inside one node or where the fabric has no NICs.
double nic_rate(const GroupShape& shape, const Transport& transport) {
  if (shape.nodes <= 1 || shape.nic == Bandwidth{}) return std::numeric_limits<double>::infinity();
  return rate(shape.nic) * static_cast<double>(shape.nics_per_node) * transport.network.efficiency;
}

/// Rings of several nodes with one GPU each never touch NVLink.
double in_node_ring(const GroupShape& shape, const Transport& transport) {
  if (shape.per_node_max <= 1) return std::numeric_limits<double>::infinity();
  return rate(ring_rate(shape, transport));
}

double ring_simple_rate(Collective op, const GroupShape& shape, const Transport& transport) {
  return std::min(in_node_ring(shape, transport), nic_rate(shape, transport)) / busbw_factor(op, shape.ranks);
}

double tree_simple_rate(const GroupShape& shape, const Transport& transport) {
  return std::min(tree_ring_part * in_node_ring(shape, transport) / 2,
                  nic_rate(shape, transport) / double_tree_wire(shape.nodes));
}

double nvls_simple_rate(const GroupShape& shape, const Transport& transport) {
  const double in_node = rate(transport.node.line) * nvls_goodput(shape, transport) / nvls_wire(shape);
  if (shape.nodes <= 1) return in_node;
  return std::min(in_node, nic_rate(shape, transport) / double_tree_wire(shape.nodes));
}

/// One message out of each node; over NVLink every GPU sends all but its own part to the heads, and as much back.
double collnet_simple_rate(const GroupShape& shape, const Transport& transport) {
  const double g = static_cast<double>(shape.per_node_max);
  const double nics = nic_rate(shape, transport);
  if (g <= 1) return nics;
  return std::min(nics, transport.node.p2p_efficiency * rate(transport.node.line) * g / (2 * (g - 1)));
}

double nvls_sharp_simple_rate(const GroupShape& shape, const Transport& transport) {
  const double in_node = rate(transport.node.line) * nvls_goodput(shape, transport) / nvls_wire(shape);
  return std::min(in_node, nic_rate(shape, transport));
}

double torus_simple_rate(Collective op, const GroupShape& shape, const Transport& transport) {
  const double passes = op == Collective::all_reduce ? 2 : 1;
  const std::vector<double> wire = torus_wire(shape.torus);
  double load = 0;
  for (std::size_t d = 0; d < wire.size(); ++d) {
    load = std::max(load, passes * wire[d] * (shape.torus[d].closed ? 1 : 2));
  }
  return rate(shape.torus_link) * transport.network.efficiency / load;
}

}  // namespace

Duration rounded(double picoseconds_) { return picoseconds(std::llround(picoseconds_)); }

RingSteps ring_steps(Collective op, const GroupShape& shape) {
  const double passes = op == Collective::all_reduce ? 2 : 1;
  return {passes * (ranks(shape) - 1), passes * (nodes(shape) - 1)};
}

double tree_hops(const GroupShape& shape) { return 2 * std::log2(nodes(shape)); }

Duration launch(const GroupShape& shape, const Transport& transport) {
  const double missing = std::max(0.0, fitted_gpus - static_cast<double>(shape.per_node_max));
  return rounded(std::max(0.0, ps(transport.node.launch) - missing * launch_per_gpu_ps));
}

Duration low_latency(Collective op, Protocol protocol, double hops, const GroupShape& shape,
                     const Transport& transport) {
  const double start = ps(launch(shape, transport));
  if (shape.nodes <= 1) {
    if (protocol == Protocol::ll) return rounded(start);
    return rounded(start + 2 * (ranks(shape) - 1) * ps(transport.node.ll128_step));
  }
  const Duration step = protocol == Protocol::ll ? transport.network.ll_step : transport.network.ll128_step;
  const double in_node = gathers(op) ? gather_step_ps * (ranks(shape) - nodes(shape)) : 0;
  return rounded(start + hops * ps(step) + in_node);
}

double ring_part(const GroupShape& shape, const Transport& transport) {
  return shape.ring_line ? std::min(1.0, *shape.ring_line / transport.node.line) : 1.0;
}

Bandwidth ring_rate(const GroupShape& shape, const Transport& transport) {
  const NodeTransport& node = transport.node;
  const Bandwidth whole = shape.nodes > 1 ? node.ring_rate_across.value_or(node.ring_rate) : node.ring_rate;
  const double part = ring_part(shape, transport);
  return part < 1 ? scaled(whole, part) : whole;
}

double simple_rate(Collective op, Algorithm algorithm, const GroupShape& shape, const Transport& transport) {
  switch (algorithm) {
    case Algorithm::tree:
      return tree_simple_rate(shape, transport);
    case Algorithm::nvls:
    case Algorithm::nvls_tree:
      return nvls_simple_rate(shape, transport);
    case Algorithm::collnet:
      return collnet_simple_rate(shape, transport);
    case Algorithm::nvls_sharp:
      return nvls_sharp_simple_rate(shape, transport);
    case Algorithm::pat:
      return pat_part * ring_simple_rate(op, shape, transport);
    case Algorithm::torus_ring:
      return torus_simple_rate(op, shape, transport);
    case Algorithm::ring:
    case Algorithm::pairwise:
    case Algorithm::halving_doubling:
    case Algorithm::hierarchical:
    case Algorithm::two_hop:
      break;
  }
  return ring_simple_rate(op, shape, transport);
}

double best_simple_rate(Collective op, const GroupShape& shape, const Transport& transport) {
  const double ring = ring_simple_rate(op, shape, transport);
  const NetworkTransport& network = transport.network;
  if (op != Collective::all_reduce || shape.nodes <= 1 || !network.tree_allowed) return ring;
  double best = std::max(network.ring_all_reduce_allowed ? ring : 0.0, tree_simple_rate(shape, transport));
  if (has_nvls(shape, transport)) best = std::max(best, nvls_simple_rate(shape, transport));
  return best;
}

std::optional<double> protocol_cap(Collective op, Protocol protocol, const GroupShape& shape,
                                   const Transport& transport) {
  const NodeTransport& node = transport.node;
  const NetworkTransport& network = transport.network;
  if (shape.ranks <= 1 || protocol == Protocol::simple) return std::nullopt;
  if (protocol == Protocol::ll) {
    const double in_node = rate(node.ll_rate);
    return shape.nodes > 1 ? std::min(in_node, rate(network.ll_rate)) : in_node;
  }
  if (op == Collective::all_reduce && shape.per_node_max > static_cast<std::uint32_t>(fitted_gpus)) {
    return std::min(rate(node.ll128_rate), ring_ll128_part * ring_simple_rate(op, shape, transport));
  }
  if (shape.nodes <= 1) return rate(node.ll128_rate);
  const double part = gathers(op) ? gather_ll128_part : network.ll128_part;
  return part * best_simple_rate(op, shape, transport);
}

Duration pat_steps(const GroupShape& shape, const Transport& transport) {
  return rounded(std::log2(ranks(shape)) * ps(transport.network.ring_step) / pat_overlap +
                 pat_per_rank_ps * ranks(shape));
}

bool has_nvls(const GroupShape& shape, const Transport& transport) {
  const bool has_multicast =
      transport.node.generation == GpuGeneration::hopper || transport.node.generation == GpuGeneration::blackwell;
  const bool has_switch = !shape.ring_line;
  return has_multicast && has_switch && transport.node.nvls_efficiency > 0 && shape.per_node_max > 1;
}

double nvls_goodput(const GroupShape& shape, const Transport& transport) {
  return transport.node.nvls_efficiency * (shape.nodes > 1 ? nvls_across_part : 1.0);
}

double nvls_wire(const GroupShape& shape) { return 1 + 1 / static_cast<double>(shape.per_node_max); }

Duration nvls_fill(Bytes size, const GroupShape& shape, const Transport& transport) {
  const double part = std::min(1.0, std::sqrt(static_cast<double>(size.count()) / nvls_full_chunk));
  return rounded(ps(transport.node.nvls_fill) * static_cast<double>(shape.per_node_max) * part);
}

}  // namespace foretrain::timing
