// What CollNet and NVLS with SHARP share: the reduction in the switches of the network.
#pragma once

#include "sim/collectives/collective.h"

namespace foretrain {

/// Adds an aggregation tree a channel (channel c: the c-th member of every node, 1/C of the message). Every member
/// sends its part up once and gets the result once; a switch sends one reduced copy on, however many it got. So each
/// node sends the message once whatever N is, and a leaf's uplink carries one copy for all NICs below it.
void add_in_network(UsageSum& sum, const GroupLayout& layout, const CollectiveContext& context);

/// Latency of a pass up the aggregation tree and down again: two steps of a tree, whatever N is. NCCL's own table has
/// 31 us where a tree step has 14 (CollNetDirect, src/graph/tuning.cc, 2.30).
[[nodiscard]] Duration in_network_latency(const Transport& transport);

}  // namespace foretrain
