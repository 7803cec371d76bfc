#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/program_options/value_semantic.hpp>
#include <filesystem>
#include <ostream>

#include "scenarios/catalogue.h"
#include "scenarios/problems.h"
#include "scenarios/scenario.h"
#include "tools/cli/cluster_choice.h"
#include "tools/cli/options.h"
#include "tools/cli/output_file.h"
#include "tools/commands/command.h"
#include "tools/import/hf_model.h"
#include "tools/import/import.h"
#include "tools/import/write_cluster.h"

namespace foretrain {
namespace {

std::string kind_words() {
  std::string words;
  for (const ImportKind& kind : import_kinds()) words += std::string(kind.name) + ", ";
  return words += hf_config_kind;
}

Syntax import_syntax() {
  std::string about = "turns a file of another program into a cluster or a model of ours. KIND is one of:";
  for (const ImportKind& kind : import_kinds()) about += fmt::format("\n  {:<17}{}", kind.name, kind.summary);
  about += fmt::format("\n  {:<17}{}", hf_config_kind, "Hugging Face config.json: a model; takes no option but -o");
  Syntax syntax("import", "import KIND FILE -o OURS.yaml [options]", about);
  syntax.positional("kind", "KIND");
  syntax.positional("file", "FILE");
  const auto word = [](const char* shown_as) { return po::value<std::string>()->value_name(shown_as); };
  const auto count = [] { return po::value<std::int64_t>()->value_name("N"); };
  auto add = syntax.options.add_options();
  add("output,o", word("FILE"),
      "the cluster or model to write; - is standard output (models: the default; graphs: of up to 500 vertices)");
  add("gpu", word("GPU"), "kind of the GPUs, of the catalogue (default: as the file has it, else h100-80gb)");
  add("gpus-per-node", count(), "GPUs of a host known only by its NICs or name (default: one a NIC)");
  add("nics-per-node", count(), "NICs of a host known only by its name (default: one a GPU, else 8)");
  add("nic", word("RATE"), "a NIC or port whose speed the file does not tell (default: the usual one of the GPU kind)");
  add("nvlink", word("RATE"), "a GPU to its NVSwitch, one way (default: of the GPU kind)");
  add("pcie", word("RATE"), "a PCIe slot, one way, where the file does not tell (default: of the GPU kind)");
  add("oversubscription", po::value<double>()->value_name("X"),
      "of uplinks whose rate the file does not tell (default: 1)");
  add("nodes", count(), "servers, where the file describes one (default: 1)");
  add("hosts", word("GLOB"), "only hosts of such names, as 'node-*' (default: all)");
  add("network", word("NAME"), "transport between nodes, of the catalogue (default: infiniband)");
  add("keep-nameless", po::bool_switch(), "HCAs that name no host are hosts of their own");
  add("join", po::bool_switch(), "put a switch above networks that are separate");
  syntax.examples = {"import ibnetdiscover fabric.txt -o mycluster.yaml --gpu h100-80gb --gpus-per-node 8",
                     "import nccl-topo system.xml -o server.yaml --nodes 4",
                     "import hf-config config.json -o mymodel.yaml"};
  return syntax;
}

/// The options of the command line, checked.
class Choices {
 public:
  Choices(const Syntax& syntax, const po::variables_map& values) : syntax_(syntax), values_(values) {}

  ImportOptions options() const {
    ImportOptions chosen;
    if (given("gpu")) chosen.gpu = text("gpu");
    chosen.gpus_per_node = number("gpus-per-node", 256);
    chosen.nics_per_node = number("nics-per-node", 256);
    chosen.nodes = number("nodes", 65536).value_or(1);
    chosen.nic = rate("nic");
    chosen.nvlink = rate("nvlink");
    chosen.pcie = rate("pcie");
    if (given("hosts")) chosen.hosts = text("hosts");
    chosen.nameless = values_["keep-nameless"].as<bool>();
    chosen.join = values_["join"].as<bool>();
    if (given("oversubscription")) chosen.oversubscription = values_["oversubscription"].as<double>();
    if (!(chosen.oversubscription >= 1 && chosen.oversubscription <= 64)) {
      throw syntax_.error(
          fmt::format("--oversubscription {}; allowed: a number from 1 to 64", chosen.oversubscription));
    }
    return chosen;
  }

  std::string network() const {
    if (!given("network")) return "infiniband";
    const std::vector<std::string> shelf = Catalogue(default_catalogue()).names(Shelf::network_transports);
    std::string name = text("network");
    if (std::find(shelf.begin(), shelf.end(), name) == shelf.end()) {
      throw syntax_.error(fmt::format("--network '{}' is not in the catalogue{}; allowed: {}", shown(name),
                                      suggestion(name, shelf), fmt::join(shelf, ", ")));
    }
    return name;
  }

  const ImportKind& kind() const {
    const std::string wanted = text("kind");
    std::vector<std::string> names;
    for (const ImportKind& kind : import_kinds()) {
      if (kind.name == wanted) return kind;
      names.emplace_back(kind.name);
    }
    names.emplace_back(hf_config_kind);
    throw syntax_.error(
        fmt::format("unknown kind '{}'{}; allowed: {}", shown(wanted), suggestion(wanted, names), kind_words()));
  }

  bool wants_model() const { return text("kind") == hf_config_kind; }

  /// Refuses what only a cluster has.
  void check_model_options() const {
    for (const auto& [name, value] : values_) {
      if (value.defaulted() || name == "kind" || name == "file" || name == "output") continue;
      throw syntax_.error(fmt::format("--{} is for clusters; allowed with {}: -o FILE", name, hf_config_kind));
    }
  }

  std::string model_output() const { return given("output") ? output() : "-"; }

  std::string output() const {
    if (!given("output")) throw syntax_.error("-o is missing; needed: the file to write, or - for standard output");
    return text("output");
  }
  std::string text(const char* name) const { return values_[name].as<std::string>(); }

 private:
  bool given(const char* name) const { return values_.count(name) > 0; }

  std::optional<std::uint32_t> number(const char* name, std::int64_t most) const {
    if (!given(name)) return std::nullopt;
    const auto value = values_[name].as<std::int64_t>();
    if (value < 1 || value > most) throw syntax_.error(fmt::format("--{} {}; allowed: 1 to {}", name, value, most));
    return static_cast<std::uint32_t>(value);
  }

  std::optional<Bandwidth> rate(const char* name) const {
    if (!given(name)) return std::nullopt;
    const Parsed<Bandwidth> parsed = parse_bandwidth(text(name));
    if (!parsed.value) throw syntax_.error(fmt::format("--{}: {}", name, parsed.error));
    constexpr double most = 100'000;  // GB/s
    if (*parsed.value <= Bandwidth{} || *parsed.value > gigabytes_per_second(most)) {
      throw syntax_.error(fmt::format("--{} {}; allowed: above 0, up to 100TB/s", name, to_text(*parsed.value)));
    }
    return parsed.value;
  }

  const Syntax& syntax_;
  const po::variables_map& values_;
};

int import_model(const Choices& choices, const Console& console) {
  namespace fs = std::filesystem;
  choices.check_model_options();
  const std::string output = choices.model_output();
  if (output != "-") check_writable(output);
  const fs::path source = choices.text("file");
  ImportedModel imported = read_hf_model(InputText::from_file(source, yaml_bytes_max));
  imported.model.name = (output == "-" ? source : fs::path(output)).stem().string();
  write_text(output, write_model_file(imported, source.filename().string()), console.out);
  for (const std::string& note : imported.notes) console.err << note << '\n';
  console.err << fmt::format("{} parameters, {} of them active: {}\n", imported.model.parameters(),
                             imported.model.active_parameters(), output == "-" ? "standard output" : output);
  return 0;
}

}  // namespace

int import_file(std::span<const std::string> args, const Console& console) {
  namespace fs = std::filesystem;
  const Syntax syntax = import_syntax();
  const auto values = syntax.parse(args, console.out);
  if (!values) return 0;
  const Choices choices(syntax, *values);
  if (choices.wants_model()) return import_model(choices, console);
  const ImportKind& kind = choices.kind();
  const ImportOptions options = choices.options();
  const std::string network = choices.network();
  const std::string output = choices.output();
  if (output != "-") check_writable(output);
  const fs::path source = choices.text("file");
  const Imported imported = kind.read(InputText::from_file(source, kind.bytes_max), options);
  const fs::path graph_file = fs::path(output).replace_extension(".graphml");
  const ClusterText text = write_cluster(
      imported, {std::string(kind.name), source.filename().string(), network, graph_file.filename().string()});
  if (!text.graphml.empty()) {
    if (output == "-") throw syntax.error("the graph is too large for one YAML text; allowed: -o FILE.yaml");
    if (graph_file == source || graph_file == output) {
      throw syntax.error(
          fmt::format("the graph would overwrite '{}'; allowed: another -o", shown(graph_file.string())));
    }
    write_text(graph_file.string(), text.graphml, console.out);
  }
  write_text(output, text.yaml, console.out);
  for (const std::string& note : imported.notes) console.err << note << '\n';
  console.err << fmt::format("{} GPUs, {} vertices, {} cables: {}{}\n", graph_gpus(imported.graph),
                             imported.graph.vertices.size(), imported.graph.cables.size(),
                             output == "-" ? "standard output" : output,
                             text.graphml.empty() ? "" : " and " + graph_file.string());
  return 0;
}

}  // namespace foretrain
