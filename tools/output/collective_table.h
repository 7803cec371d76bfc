// What `foretrain collective` shows: nccl-tests' columns, then what we know beyond them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/simulate.h"

namespace foretrain {

struct CollectiveRow {
  Collective op{};
  Bytes size;
  IdleCall call;          ///< by itself on an idle network
  std::string link = {};  ///< name of the link that bounds it; empty where none does
  struct Together {       ///< the same with all other groups at once
    Duration time;        ///< until the last has ended
    double slowdown = 1;  ///< mean over groups: time over time by itself
    std::string limit, link;
  };
  std::optional<Together> together = {};
};

struct CollectiveTable {
  std::string cluster;
  std::int64_t ranks = 0;
  std::vector<CollectiveRow> rows;
  std::int64_t groups = 1;                     ///< that call at once
  std::optional<MeasuredSizes> measured = {};  ///< of the cluster's transport; absent: not known
};

/// Bytes a second: size over time, and times the busbw factor (nccl-tests, doc/PERFORMANCE.md).
[[nodiscard]] double algbw(const CollectiveRow& row);
[[nodiscard]] double busbw(const CollectiveRow& row, std::int64_t ranks);

[[nodiscard]] std::string to_text(const CollectiveTable& table);
[[nodiscard]] std::string to_json(const CollectiveTable& table);

}  // namespace foretrain
