// Measures a collective on a cluster as nccl-tests would: which GPUs, one group of them or all of its shape at once.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tools/cli/cluster_choice.h"
#include "tools/output/collective_table.h"

namespace foretrain {

/// Where the ranks of a group sit. With neither option: the first GPUs of the cluster.
struct GroupSpec {
  std::int64_t ranks = 0;
  std::optional<std::int64_t> ranks_per_node;  ///< that many GPUs of each node
  std::int64_t stride = 1;                     ///< every stride-th GPU; with ranks_per_node: of its node
  bool concurrent = false;                     ///< all groups of that shape on the same nodes
};

struct Groups {
  std::int64_t gpus = 0;                   ///< of the fabric that holds them
  std::vector<std::vector<GpuId>> groups;  ///< the first one starts at GPU 0
};
/// Throws UsageError for a shape that cannot be.
[[nodiscard]] Groups lay_out(const Syntax& syntax, const GroupSpec& spec, const Cluster& cluster);

struct Measurement {
  Collective op{};
  std::vector<Bytes> sizes;
  Forced forced;
  Routing routing{};
  Exchange exchange = {};  ///< of all_to_allv and its way back
};
/// One call of the first group on an idle network, or of all groups at once through `simulate`.
[[nodiscard]] CollectiveTable measure(const Syntax& syntax, const Cluster& cluster, const Groups& where,
                                      const Measurement& wanted);

}  // namespace foretrain
