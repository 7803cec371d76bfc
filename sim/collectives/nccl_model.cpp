#include "sim/collectives/nccl_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <span>

#include "sim/collectives/timing.h"

namespace foretrain::nccl {

namespace {

using ByProtocol = std::array<double, 3>;  ///< LL, LL128, Simple

// Microseconds: fixed cost, a step over NVLink, a step over the network.
constexpr ByProtocol tree_base{6.8, 14.0, 8.4}, tree_nvlink{0.6, 1.25, 4.0}, tree_network{5.0, 8.5, 14.0};
constexpr ByProtocol ring_base{6.6, 14.0, 8.4}, ring_nvlink{0.6, 1.9, 3.4}, ring_network{2.7, 4.0, 14.0};
constexpr double nvls_nvlink = 25.0, nvls_network = 18.0, nvls_tree_network = 20.9;
constexpr double collnet_nvlink = 3.7, collnet_per_gpu = 0.4, collnet_network = 31.0;
constexpr double pat_base = 8.0, pat_overlap = 3.5, pat_per_rank = 2.8;
constexpr double network_post = 1.0;  ///< us a step of a ring over nodes takes at least; 3x for Simple
constexpr double gb = 1e9;

/// GB/s; by number of nodes: 1, 2, more.
struct Caps {
  std::array<double, 3> ll;                                       ///< in all
  std::array<double, 3> ring_ll128, tree_ll128, tree, nvls_tree;  ///< a channel
};
constexpr Caps volta_caps{{39.0, 39.0, 20.4}, {20, 20, 20}, {20, 20, 20}, {26.5, 18.5, 10.0}, {26.5, 18.5, 10.0}};
constexpr Caps ampere_caps{{87.7, 22.5, 19.0}, {20, 20, 20}, {20, 20, 20}, {24.0, 23.6, 17.8}, {24.0, 23.6, 17.8}};
constexpr Caps hopper_caps{
    {141.0, 45.0, 35.0}, {36.7, 36.7, 36.7}, {36.7, 36.7, 29.0}, {38.7, 41.4, 36.0}, {0, 57.7, 45.5}};
constexpr Caps blackwell_caps{{282, 90, 70}, {40, 40, 40}, {55.6, 31.67, 20.0}, {70.0, 42.8, 24.0}, {0, 96.0, 80.0}};

/// Per-channel speeds that the graph search tries, GB/s.
constexpr double old_inside[] = {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3};
constexpr double old_between[] = {48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12};
constexpr double hopper_inside[] = {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3};
constexpr double hopper_between[] = {48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12};
constexpr double blackwell_inside[] = {90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18};
constexpr double blackwell_between[] = {96, 86,   80, 48, 45.1, 42, 40,  30,  24,   22,
                                        20, 17.5, 15, 12, 6,    3,  2.4, 1.2, 0.24, 0.12};

/// One generation's share of the tables. `link_part` is the speed that NCCL books for an NVLink over its line rate:
/// 20 of 25 GB/s (Volta, Ampere), 20.6 of 25 (Hopper), 40.1 of 50 (Blackwell).
struct Generation {
  const Caps& caps;
  std::span<const double> inside, between;
  double link_part;
  double nvls_efficiency;
  bool old_ring_penalty;  ///< before Ampere, Simple rings over nodes pay 1.9 instead of 1.4
  const Caps& host;       ///< LL over nodes: Intel's row is Volta's, AMD's is Ampere's
};

const Generation& generation(const Transport& transport) {
  // The CPU of the generation's usual server decides LL between nodes: Intel but for DGX A100's AMD.
  static constexpr Generation volta{volta_caps, old_inside, old_between, 0.8, 0, true, volta_caps};
  static constexpr Generation ampere{ampere_caps, old_inside, old_between, 0.8, 0, false, ampere_caps};
  static constexpr Generation hopper{hopper_caps, hopper_inside, hopper_between, 20.6 / 25, 0.85, false, volta_caps};
  static constexpr Generation blackwell{blackwell_caps, blackwell_inside, blackwell_between, 40.1 / 50, 0.74,
                                        false,          volta_caps};
  // Not NVIDIA's: the newest rings and trees, without NVLS.
  static constexpr Generation other{hopper_caps, hopper_inside, hopper_between, 20.6 / 25, 0, false, volta_caps};
  switch (transport.node.generation) {
    case GpuGeneration::volta:
      return volta;
    case GpuGeneration::ampere:
      return ampere;
    case GpuGeneration::hopper:
      return hopper;
    case GpuGeneration::blackwell:
      return blackwell;
    case GpuGeneration::other:
      return other;
  }
  return other;
}

std::size_t column(const GroupShape& shape) { return shape.nodes <= 1 ? 0 : shape.nodes == 2 ? 1 : 2; }
std::size_t row(Protocol protocol) { return static_cast<std::size_t>(protocol); }

double node_offer(const GroupShape& shape, const Transport& transport) {
  return static_cast<double>(transport.node.line.bytes_per_s()) / gb * generation(transport).link_part *
         timing::ring_part(shape, transport);
}

/// NCCL books 12 GB/s for each 100 Gb/s.
double nic_offer(const GroupShape& shape) { return static_cast<double>(shape.nic.bytes_per_s()) / gb * 0.96; }

int whole(double quotient) { return static_cast<int>(std::floor(quotient + 1e-9)); }

/// Log2 rounded down.
double integer_log2(std::uint32_t value) { return static_cast<double>(std::bit_width(value) - 1); }

/// From index 0 = 64 B, doubling; what a tree's bandwidth loses while its pipeline is short.
constexpr std::array<ByProtocol, 24> tree_correction{{
    {1, 1, .9},   {1, 1, .9},   {1, 1, .9},   {1, 1, .9},   {.9, 1, .9},  {.8, .9, .9}, {.7, .8, .9}, {.7, .8, .8},
    {.7, .8, .7}, {.7, .7, .6}, {.6, .6, .6}, {.5, .6, .5}, {.4, .6, .5}, {.4, .6, .5}, {.5, .6, .5}, {.6, .6, .6},
    {.7, .8, .7}, {.8, .9, .8}, {.9, .9, .7}, {1, .9, .7},  {1, .9, .8},  {1, 1, .9},   {1, 1, .9},   {1, 1, .9},
}};

double short_pipeline(Protocol protocol, Bytes size, std::size_t last) {
  if (size < bytes(64)) return 1;
  const auto index = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(size.count()) / 64) - 1);
  return index <= last ? tree_correction[index][row(protocol)] : 1.0;
}

double ring_latency_us(Collective op, Protocol protocol, Bytes size, const GroupShape& shape,
                       const Transport& transport) {
  const std::size_t p = row(protocol);
  const double n = shape.ranks;
  const double nodes = shape.nodes;
  double intra = ring_nvlink[p];
  if (shape.nodes > 1) intra = std::max(intra, network_post * (protocol == Protocol::simple ? 3.0 : 1.0));
  const double inter = shape.per_node_max == 1 ? tree_network[p] : ring_network[p];
  if (op == Collective::broadcast || op == Collective::reduce) {
    return ring_base[p] + (protocol == Protocol::simple ? tree_nvlink[p] : intra);
  }
  const double passes = op == Collective::all_reduce ? 2 : 1;
  double latency = ring_base[p] + passes * ((n - nodes) * intra + (nodes - 1) * inter);
  if (op == Collective::all_reduce && protocol == Protocol::simple && shape.nodes > 1) {
    const double chunk = static_cast<double>(size.count()) / (ring_channels(shape, transport).count * n);
    if (chunk >= 64) latency *= generation(transport).old_ring_penalty ? 1.9 : 1.4;
  }
  return latency;
}

double ring_bandwidth(Collective op, Protocol protocol, const GroupShape& shape, const Transport& transport) {
  const Generation& gen = generation(transport);
  const Channels channels = ring_channels(shape, transport);
  double bus = channels.count * channels.inter;
  if (protocol == Protocol::ll) {
    const Caps& caps = shape.nodes <= 1 ? gen.caps : gen.host;
    bus = std::min(bus / 2, caps.ll[column(shape)]);
  } else if (protocol == Protocol::ll128) {
    bus = std::min(0.92 * bus, channels.count * gen.caps.ring_ll128[column(shape)]);
  }
  return bus / busbw_factor(op, shape.ranks);
}

double tree_bandwidth(Protocol protocol, Bytes size, const GroupShape& shape, const Transport& transport) {
  const Generation& gen = generation(transport);
  const Channels channels = ring_channels(shape, transport);
  const std::size_t c = column(shape);
  double bus = channels.count * (shape.nodes <= 2 ? channels.intra : channels.inter);
  bus = std::min(0.92 * bus, channels.count * gen.caps.tree[c]);
  if (protocol == Protocol::ll) {
    bus = std::min(bus / 3.8, (shape.nodes <= 1 ? gen.caps : gen.host).ll[c]);
  } else if (protocol == Protocol::ll128) {
    bus = std::min(bus * (shape.nodes <= 1 ? 7.0 / 9 : 120.0 / 128), channels.count * gen.caps.tree_ll128[c]);
  }
  return bus / 2 * short_pipeline(protocol, size, 22);
}

/// One head a GPU, so NCCL's correction for GPUs that share a head is 1.
double collnet_bandwidth(const GroupShape& shape, const Transport& transport) {
  const Channels channels = nvls_channels(shape, transport);
  const bool corrected =
      transport.node.generation == GpuGeneration::hopper || transport.node.generation == GpuGeneration::blackwell;
  return channels.count * std::min(channels.intra, channels.inter) * (corrected ? 0.85 : 1.0) / 2;
}

double pat_bandwidth(const GroupShape& shape, const Transport& transport) {
  const Channels channels = ring_channels(shape, transport);
  return 0.75 * channels.count * channels.inter;
}

double nvls_bandwidth(Algorithm algorithm, Bytes size, const GroupShape& shape, const Transport& transport) {
  const Generation& gen = generation(transport);
  const Channels channels = nvls_channels(shape, transport);
  if (channels.count < 2) return 0;
  const double count = channels.count;
  double per_channel = 2 * channels.intra * gen.nvls_efficiency * (count - 1) / count;
  double correction = 1;
  if (algorithm == Algorithm::nvls_sharp) per_channel = std::min(per_channel, channels.inter);
  if (algorithm == Algorithm::nvls_tree) {
    per_channel = std::min(per_channel, channels.inter * (shape.nodes == 2 ? 2 : 1));
    per_channel = std::min(per_channel, gen.caps.nvls_tree[column(shape)]);
    const bool corrected = transport.node.generation == GpuGeneration::blackwell;
    if (corrected) correction = short_pipeline(Protocol::simple, size, 23);
  }
  return count * per_channel / busbw_factor(Collective::all_reduce, shape.ranks) * correction;
}

}  // namespace

Channels ring_channels(const GroupShape& shape, const Transport& transport) {
  const Generation& gen = generation(transport);
  constexpr int most = 16;  // that the search lays before it doubles them
  const bool across = shape.nodes > 1;
  const bool has_nics = across && shape.nics_per_node > 0 && shape.nic > Bandwidth{};
  const double node = node_offer(shape, transport);
  Channels best;
  for (const double speed : across ? gen.between : gen.inside) {
    int count = most;
    if (shape.per_node_max > 1 || !has_nics) count = std::min(count, whole(node / speed));
    if (has_nics) {
      count = std::min(count, static_cast<int>(shape.nics_per_node) * whole(nic_offer(shape) / speed));
    }
    if (count * speed > best.count * best.inter) best = {count, speed, speed};
  }
  if (best.inter <= 0) return {1, 0.12, 0.12};
  // With the channels fixed, the search tries to make trees faster inside the node. Between two nodes a tree sends half
  // of what a ring does, so up to twice the NICs' speed is of use.
  for (const double speed : gen.inside) {
    const bool fits = best.count * speed <= node && speed <= 2 * best.inter;
    if (across && shape.per_node_max > 1 && speed > best.intra && fits) best.intra = speed;
  }
  constexpr double doubled_from = 25;  // GB/s; faster channels are split in two
  if (best.intra >= doubled_from) best = {2 * best.count, best.intra / 2, best.inter / 2};
  return best;
}

Channels nvls_channels(const GroupShape& shape, const Transport& transport) {
  // One channel a GPU, its head: all share the node's NVLink evenly.
  const Generation& gen = generation(transport);
  const double node = node_offer(shape, transport);
  const bool across = shape.nodes > 1;
  const std::span<const double> speeds = across ? gen.between : gen.inside;
  int count = static_cast<int>(shape.per_node_max);
  // More GPUs than the slowest step allows: fewer heads.
  if (!across) count = std::min(count, whole(node / speeds.back()));
  double rate = 0;
  for (const double speed : speeds) {
    if (rate <= 0 && count * speed <= node) rate = speed;
  }
  Channels channels{count, rate, rate};
  if (across) {
    const double nics = nic_offer(shape) * static_cast<double>(shape.nics_per_node);
    channels.inter = std::min(rate, nics / count);
  }
  return channels;
}

double latency_us(Collective op, Choice choice, Bytes size, const GroupShape& shape, const Transport& transport) {
  const std::size_t p = row(choice.protocol);
  const double hops = 2 * integer_log2(shape.nodes);
  switch (choice.algorithm) {
    case Algorithm::ring:
      return ring_latency_us(op, choice.protocol, size, shape, transport);
    case Algorithm::tree:
      return tree_base[p] + 2 * static_cast<double>(shape.per_node_max - 1) * tree_nvlink[p] + hops * tree_network[p];
    case Algorithm::nvls:
      return nvls_nvlink;
    case Algorithm::nvls_tree:
      return nvls_nvlink + hops * nvls_tree_network;
    case Algorithm::nvls_sharp:
      return nvls_nvlink + nvls_network;
    case Algorithm::collnet: {
      const double others = static_cast<double>(shape.per_node_max - 1);
      return 2 * (std::min(1.0, others) * collnet_nvlink + collnet_per_gpu * others) + collnet_network;
    }
    case Algorithm::pat:
      return pat_base + integer_log2(shape.nodes) * tree_network[p] / pat_overlap + pat_per_rank * shape.ranks;
    case Algorithm::pairwise:
    case Algorithm::halving_doubling:
    case Algorithm::hierarchical:
    case Algorithm::two_hop:
    case Algorithm::torus_ring:
      break;
  }
  return 0;
}

double bandwidth(Collective op, Choice choice, Bytes size, const GroupShape& shape, const Transport& transport) {
  switch (choice.algorithm) {
    case Algorithm::ring:
      return ring_bandwidth(op, choice.protocol, shape, transport);
    case Algorithm::tree:
      return tree_bandwidth(choice.protocol, size, shape, transport);
    case Algorithm::nvls:
    case Algorithm::nvls_tree:
    case Algorithm::nvls_sharp:
      return nvls_bandwidth(choice.algorithm, size, shape, transport);
    case Algorithm::collnet:
      return collnet_bandwidth(shape, transport);
    case Algorithm::pat:
      return pat_bandwidth(shape, transport);
    case Algorithm::pairwise:
    case Algorithm::halving_doubling:
    case Algorithm::hierarchical:
    case Algorithm::two_hop:
    case Algorithm::torus_ring:
      break;
  }
  return 0;
}

}  // namespace foretrain::nccl
