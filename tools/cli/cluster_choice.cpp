#include "tools/cli/cluster_choice.h"

#include <fmt/core.h>

#include <ostream>

#include "tools/cli/output_file.h"
#include "tools/output/human.h"

namespace foretrain {

void add_shape_option(Syntax& syntax) {
  syntax.options.add_options()("shape", po::value<std::string>()->value_name("AxBxC"),
                               "of a torus: a slice of this shape (default: all of it)");
}

ClusterChoice choose_cluster(const Syntax& syntax, const po::variables_map& values, std::optional<std::int64_t> gpus) {
  const auto name = values["cluster"].as<std::string>();
  const std::string shape = values.count("shape") > 0 ? values["shape"].as<std::string>() : std::string();
  Cluster cluster = load_cluster(name, default_catalogue());
  if (!shape.empty()) {
    if (!std::holds_alternative<TorusSpec>(cluster.fabric))
      throw syntax.error(fmt::format("--shape {}: '{}' is no torus", shape, name));
    cluster = load_cluster(name, default_catalogue(), shape);
  }
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
