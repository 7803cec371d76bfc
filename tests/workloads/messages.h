// What a generated program sends.
#pragma once

#include "sim/program.h"
#include "workloads/traffic.h"

namespace foretrain {

/// Bytes of all calls of `op` in `slot` together.
inline std::int64_t message_bytes(const Program& program, Collective op, Slot slot) {
  std::int64_t sum = 0;
  for (const Stream& stream : program.streams)
    for (const Operation& o : stream.operations)
      if (o.kind == OperationKind::communicate && o.op == op && o.slot == static_cast<std::uint16_t>(slot))
        sum += o.amount;
  return sum;
}

}  // namespace foretrain
