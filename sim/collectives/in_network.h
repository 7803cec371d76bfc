// What CollNet and NVLS with SHARP share: the reduction in the switches of the network.
#pragma once

#include "sim/collectives/collective.h"

namespace foretrain {

/// The cables of channel c's aggregation tree, each way, and how much of what is sent crosses each.
struct AggregationTree {
  std::vector<LinkShare> up;
  std::vector<LinkShare> down;
};
[[nodiscard]] AggregationTree aggregation_tree(const GroupLayout& layout, std::size_t channel,
                                               const CollectiveContext& context);

/// Adds an aggregation tree a channel (channel c: the c-th member of every node, 1/C of the message). Every member
/// sends its part up once and gets the result once; a switch sends one reduced copy on, however many it got. So each
/// node sends the message once whatever N is, and a leaf's uplink carries one copy for all NICs below it.
void add_in_network(UsageSum& sum, const GroupLayout& layout, const CollectiveContext& context);

/// The trees as sends: packets are reduced on their way, so that a piece moves over all cables of a tree at one pace,
/// up first and, when it is whole, down.
class InNetworkSends {
 public:
  InNetworkSends(SendGraph& graph, const GroupLayout& layout, const CollectiveContext& context);
  /// The next piece, of `wire` bytes, in channel c; the send with which it is everywhere.
  std::uint32_t add_piece(std::size_t channel, double wire, std::span<const std::uint32_t> after);

 private:
  struct Channel {
    ChunkSend up;  ///< the next
    ChunkSend down;
  };
  SendGraph& graph_;
  std::vector<Channel> channels_;
};

/// Latency of a pass up the aggregation tree and down again: two steps of a tree, whatever N is. NCCL's own table has
/// 31 us where a tree step has 14 (CollNetDirect, src/graph/tuning.cc, 2.30).
[[nodiscard]] Duration in_network_latency(const Transport& transport);

}  // namespace foretrain
