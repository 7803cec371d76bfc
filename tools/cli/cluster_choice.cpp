#include "tools/cli/cluster_choice.h"

#include <fmt/core.h>

#include <ostream>

#include "tools/cli/output_file.h"
#include "tools/output/human.h"

namespace foretrain {

ClusterChoice choose_cluster(const Syntax& syntax, const std::string& name, std::optional<std::int64_t> gpus) {
  Cluster cluster = load_cluster(name, default_catalogue());
  const std::int64_t most = cluster.max_gpus;
  if (gpus && (*gpus < 1 || *gpus > most)) {
    throw syntax.error(fmt::format("--gpus {}: '{}' can have 1 to {} GPUs", *gpus, name, grouped(most)));
  }
  return {std::move(cluster), gpus.value_or(most)};
}

Fabric fabric_of(const Syntax& syntax, const ClusterChoice& choice) {
  try {
    return build_fabric(choice.cluster, choice.gpus);
  } catch (const std::invalid_argument& e) {
    throw syntax.error(fmt::format("{} GPUs of '{}': {}", choice.gpus, choice.cluster.name, e.what()));
  }
}

void write_text(const std::string& path, const std::string& text, std::ostream& out) {
  if (path == "-") {
    out << text;
    return;
  }
  OutputFile file(path);
  file.stream() << text;
  file.commit();
}

}  // namespace foretrain
