// A cluster and how many of its GPUs, as the commands that need no scenario ask for them.
#pragma once

#include <optional>
#include <string>

#include "scenarios/scenario.h"
#include "tools/cli/options.h"

namespace foretrain {

struct ClusterChoice {
  Cluster cluster;
  std::int64_t gpus = 0;
};

/// The option --shape, of the commands that take a cluster.
void add_shape_option(Syntax& syntax);
/// All GPUs that the cluster can have when `gpus` is absent; of a torus the slice that --shape asks for. Throws
/// UsageError when it cannot have that many, or --shape is given and it is no torus.
[[nodiscard]] ClusterChoice choose_cluster(const Syntax& syntax, const po::variables_map& values,
                                           std::optional<std::int64_t> gpus);

/// The fabric; what its builder refuses (a number of GPUs that fills no torus) is the user's mistake.
[[nodiscard]] Fabric fabric_of(const Syntax& syntax, const ClusterChoice& choice);

/// Writes `text` whole or not at all to a file, or to `out` if its name is "-".
void write_text(const std::string& path, const std::string& text, std::ostream& out);

}  // namespace foretrain
