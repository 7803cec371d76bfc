// Transport: what NCCL achieves on a kind of hardware, in a few numbers a GPU generation and a few a fabric kind.
//
// Link bandwidths are line rates; these say what part of them a protocol reaches, and how long a step takes.
// The form and the meaning of each number: docs/collectives.md; values come with each cluster of the catalogue,
// fitted to published nccl-tests logs.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "topology/units.h"

namespace foretrain {

enum class GpuGeneration : std::uint8_t { volta, ampere, hopper, blackwell, other };

/// Which message sizes the numbers of a transport were fitted to logs of; the rest is by analogy.
enum class MeasuredSizes : std::uint8_t { none, large_sizes, all_sizes };
inline constexpr MeasuredSizes all_measured_sizes[] = {MeasuredSizes::none, MeasuredSizes::large_sizes,
                                                       MeasuredSizes::all_sizes};
[[nodiscard]] std::string_view to_text(MeasuredSizes sizes);

/// Inside a node, a GPU generation. Rates are bus bandwidths unless said otherwise.
struct NodeTransport {
  GpuGeneration generation = GpuGeneration::hopper;
  Bandwidth line = gigabytes_per_second(450);        ///< NVLink of a GPU, one direction
  Duration launch = microseconds(16);                ///< l0: fixed cost of a call on 8 GPUs; 1.2 us less a GPU fewer
  Bandwidth ll_rate = gigabytes_per_second(80);      ///< bLL: algorithm bandwidth that LL tops out at
  Duration ll128_step = microseconds(1.4);           ///< r128
  Bandwidth ll128_rate = gigabytes_per_second(190);  ///< bM: algorithm bandwidth that LL128 tops out at
  Duration ring_step = microseconds(5);              ///< rS: a step of the Simple protocol
  Bandwidth ring_rate = gigabytes_per_second(368);   ///< ringbw: bus bandwidth of rings inside the node
  double nvls_efficiency = 0.685;                    ///< eN: of the line rate; 0 = no NVLS
  Duration nvls_fill = microseconds(10);             ///< rN: pipeline fill a GPU at 64 MiB and more
  double p2p_efficiency = 0.80;                      ///< of the line rate, for send/recv and all-to-all
  std::optional<Bandwidth> ring_rate_across;         ///< ringbw of groups over several nodes, where it differs
  MeasuredSizes measured = MeasuredSizes::none;
};

/// Between nodes, a kind of fabric.
struct NetworkTransport {
  Duration ll_step = microseconds(12);            ///< aLL
  Bandwidth ll_rate = gigabytes_per_second(8.5);  ///< bLL
  Duration ll128_step = microseconds(30);         ///< aM
  double ll128_part = 0.6;                        ///< kM: LL128's bandwidth as a part of Simple's
  Duration ring_step = microseconds(35);          ///< aR
  Duration tree_step = microseconds(65);          ///< aN
  double efficiency = 0.87;                       ///< eff: goodput of the NIC line rate
  bool tree_allowed = true;                       ///< plain TCP and NVL72 across racks run rings only
  bool ring_all_reduce_allowed = true;            ///< TCPXO's tuner does not pick it
  MeasuredSizes measured = MeasuredSizes::none;
  bool in_network_reduction = false;  ///< switches reduce (SHARP), and NCCL's CollNet plugin is in use
};

struct Transport {
  NodeTransport node;
  NetworkTransport network;
};

}  // namespace foretrain
