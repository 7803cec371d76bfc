// GraphML: a graph with GPUs is a whole fabric and taken as it is; any other is a network of hosts and switches whose
// servers are completed.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "scenarios/graphml.h"
#include "scenarios/problems.h"
#include "tools/import/import.h"
#include "tools/import/lines.h"
#include "tools/import/network_draft.h"

namespace foretrain {
namespace {

enum class Part : std::uint8_t { host, network_switch };

constexpr std::array host_words = {"host", "server", "node", "compute", "endpoint", "hca", "nic"};
constexpr std::array switch_words = {"switch", "router", "leaf", "spine", "core", "tor", "edge", "aggregation", "agg"};

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return out;
}

template <std::size_t N>
bool one_of(const std::array<const char*, N>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

class Reader {
 public:
  Reader(const InputText& input, const ImportOptions& options)
      : input_(input), options_(options), graph_(read_graphml(input)), draft_(input) {}

  Imported read() {
    if (holds_gpus()) return whole_fabric();
    std::vector<std::string> notes;
    const std::vector<Part> parts = parts_of_nodes(notes);
    const GpuFacts facts = gpu_facts(options_, "", ignored_);
    add_nodes(parts);
    std::size_t without_rate = 0;
    for (const GraphmlGraph::Edge& edge : graph_.edges) {
      const std::optional<Bandwidth> rate = rate_of(edge);
      without_rate += rate ? 0 : 1;
      const NetworkDraft::Point a = end(edge.a, parts);
      const NetworkDraft::Point b = end(edge.b, parts);
      draft_.connect(a, b, rate.value_or(facts.nic), 1, edge.offset);
    }
    if (without_rate > 0) {
      notes.push_back(
          fmt::format("assumed: {} (--nic) for {} edges without a bandwidth", to_text(facts.nic), without_rate));
    }
    return draft_.finish(options_, std::move(notes));
  }

 private:
  const std::string* kind_of(const GraphmlGraph::Node& node) const {
    for (const char* attribute : {"kind", "type", "role"}) {
      if (const std::string* value = graphml_value(graph_, node.values, attribute)) return value;
    }
    return nullptr;
  }

  bool holds_gpus() const {
    return std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [&](const GraphmlGraph::Node& node) {
      const std::string* kind = graphml_value(graph_, node.values, "kind");
      return kind != nullptr && *kind == "gpu";
    });
  }

  Imported whole_fabric() {
    Imported imported;
    const GpuFacts facts = gpu_facts(options_, "", imported.notes);
    imported.graph = graph_from_graphml(input_);
    imported.gpu = facts.name;
    imported.nvlink = facts.nvlink;
    imported.node_transport = facts.node_transport;
    return imported;
  }

  std::vector<Part> parts_of_nodes(std::vector<std::string>& notes) const {
    std::vector<std::uint32_t> degree(graph_.nodes.size(), 0);
    for (const GraphmlGraph::Edge& edge : graph_.edges) {
      ++degree[edge.a];
      ++degree[edge.b];
    }
    std::vector<Part> parts;
    std::size_t guessed = 0;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const GraphmlGraph::Node& node = graph_.nodes[i];
      const std::string* kind = kind_of(node);
      guessed += kind == nullptr ? 1 : 0;
      if (kind == nullptr) {
        parts.push_back(degree[i] <= 1 ? Part::host : Part::network_switch);
      } else if (one_of(host_words, lower(*kind))) {
        parts.push_back(Part::host);
      } else if (one_of(switch_words, lower(*kind))) {
        parts.push_back(Part::network_switch);
      } else {
        input_.fail(node.offset,
                    fmt::format("kind '{}'; allowed: host, server, node, compute, nic, switch, router, leaf, "
                                "spine, core, tor, edge, aggregation; with GPUs: {}",
                                shown(*kind), vertex_kind_words()));
      }
    }
    if (guessed > 0) {
      notes.push_back(fmt::format(
          "assumed: of {} nodes without a kind those with one edge are hosts, the others switches", guessed));
    }
    return parts;
  }

  void add_nodes(const std::vector<Part>& parts) {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const GraphmlGraph::Node& node = graph_.nodes[i];
      const std::string* name = graphml_value(graph_, node.values, "name");
      if (name == nullptr) name = graphml_value(graph_, node.values, "label");
      const std::string& shown_as = name == nullptr || trimmed(*name).empty() ? node.id : *name;
      input_.check_words(node.offset, "name of a node", shown_as);
      // Hosts of one name would become one: their ids tell them apart.
      at_.push_back(parts[i] == Part::host ? draft_.host(fmt::format("{}", shown_as))
                                           : draft_.add_switch(shown_as, node.offset));
      if (parts[i] == Part::host && at_.back() + 1 != ++hosts_) {
        input_.fail(node.offset, fmt::format("a second host named '{}'; allowed: names that differ", shown(shown_as)));
      }
      nics_.push_back(0);
    }
  }

  /// Each edge of a host ends in a NIC of its own.
  NetworkDraft::Point end(std::uint32_t node, const std::vector<Part>& parts) {
    if (parts[node] == Part::network_switch) return at_[node];
    return draft_.add_nic(at_[node], fmt::format("nic{}", nics_[node]++), graph_.nodes[node].offset);
  }

  /// `bandwidth` with its unit, or the Topology Zoo's LinkSpeedRaw in bits a second.
  std::optional<Bandwidth> rate_of(const GraphmlGraph::Edge& edge) const {
    if (const std::string* text = graphml_value(graph_, edge.values, "bandwidth")) {
      input_.check_words(edge.offset, "bandwidth", *text);
      const Parsed<Bandwidth> parsed = parse_bandwidth(*text);
      if (!parsed.value || *parsed.value <= Bandwidth{}) {
        input_.fail(edge.offset, fmt::format("bandwidth: {}", parsed.value ? "0; allowed: above 0" : parsed.error));
      }
      return parsed.value;
    }
    const std::string* raw = graphml_value(graph_, edge.values, "LinkSpeedRaw");
    if (raw == nullptr) return std::nullopt;
    double bits = 0;
    const auto [last, error] = std::from_chars(raw->data(), raw->data() + raw->size(), bits);
    constexpr double least = 8;
    constexpr double most = 1e16;
    if (error != std::errc{} || last != raw->data() + raw->size() || !(bits >= least && bits <= most)) {
      input_.fail(edge.offset,
                  fmt::format("LinkSpeedRaw '{}'; allowed: bits a second, {} to {}", shown(*raw), least, most));
    }
    return gigabits_per_second(bits / 1e9);
  }

  const InputText& input_;
  const ImportOptions& options_;
  GraphmlGraph graph_;
  NetworkDraft draft_;
  std::vector<std::uint32_t> at_;  ///< host or point, by node
  std::vector<std::uint32_t> nics_;
  std::uint32_t hosts_ = 0;
  std::vector<std::string> ignored_;
};

}  // namespace

Imported read_graphml_network(const InputText& input, const ImportOptions& options) {
  return Reader(input, options).read();
}

}  // namespace foretrain
