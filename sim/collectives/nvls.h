// What NVLS and NVLSTree share: the reduction inside the node's NVSwitch.
#pragma once

#include "sim/collectives/collective.h"

namespace foretrain {

/// Each GPU of a node sends the message once to be reduced in the switch, and 1/g of it once more as the owner of that
/// part, which the switch copies to all; it receives as much.
void add_nvls(UsageSum& sum, const GroupLayout& layout, double wire, double goodput);

}  // namespace foretrain
