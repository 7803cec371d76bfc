// What NVLS and NVLSTree share: the reduction inside the node's NVSwitch.
#pragma once

#include "sim/collectives/collective.h"

namespace foretrain {

/// Each GPU of a node sends the message once to be reduced in the switch, and 1/g of it once more as the owner of that
/// part, which the switch copies to all; it receives as much.
void add_nvls(UsageSum& sum, const GroupLayout& layout, double wire, double goodput);

/// One piece of add_nvls' traffic, or of a part of it, as sends, one a member of a node; `last` holds each member's
/// line and is brought up to date. All wait for `after`.
void send_nvls(SendGraph& graph, const std::vector<GpuId>& gpus, double wire, double goodput,
               std::span<const std::uint32_t> after, std::vector<std::uint32_t>& last);

}  // namespace foretrain
