// What `foretrain collective` shows: nccl-tests' columns, then what we know beyond them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/simulate.h"

namespace foretrain {

struct CollectiveRow {
  Collective op{};
  Bytes size;
  IdleCall call;
};

struct CollectiveTable {
  std::string cluster;
  std::int64_t ranks = 0;
  std::vector<CollectiveRow> rows;
};

/// Bytes a second: size over time, and times the busbw factor (nccl-tests, doc/PERFORMANCE.md).
[[nodiscard]] double algbw(const CollectiveRow& row);
[[nodiscard]] double busbw(const CollectiveRow& row, std::int64_t ranks);

[[nodiscard]] std::string to_text(const CollectiveTable& table);
[[nodiscard]] std::string to_json(const CollectiveTable& table);

}  // namespace foretrain
