#include "tools/output/topology_table.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/output/human.h"

namespace foretrain {
namespace {

std::string count(std::size_t value) { return grouped(static_cast<std::int64_t>(value)); }

std::string range(const std::string& least, const std::string& most) {
  return least == most ? least : least + " - " + most;
}

std::string rate(Bandwidth b) { return human_rate(static_cast<double>(b.bytes_per_s())); }

std::string oversubscription_text(const TierReport& tier) {
  return tier.oversubscription ? significant(*tier.oversubscription) + " : 1" : "-";
}

}  // namespace

std::string topology_text(const std::string& cluster, const TopologyReport& r) {
  std::string text =
      fmt::format("{}: {} GPUs in {} nodes, {} NICs\n\n", cluster, count(r.gpus), count(r.nodes), count(r.nics));
  text += fmt::format("  {:<22}{} ({} of what half of the GPUs can send; max-flow on the graph)\n", "bisection",
                      rate(r.bisection), human_percent(r.bisection_of_injection));
  text += fmt::format("  {:<22}{} links between the two GPUs farthest apart\n", "diameter", count(r.diameter_hops));
  text += fmt::format("  {:<22}{} vertices, {} directed links\n", "graph", count(r.vertices), count(r.links));
  if (!r.switches.empty()) text += fmt::format("\n{:<24}{:>10}{:>14}\n", "Switches", "count", "ports each");
  for (const SwitchRadix& s : r.switches) {
    text += fmt::format("  {:<22}{:>10}{:>14}\n", to_text(s.kind), count(s.count),
                        range(count(s.ports_min), count(s.ports_max)));
  }
  text += fmt::format("\n{:<24}{:>10}{:>26}{:>12}{:>18}\n", "Links", "links", "bandwidth, one way", "latency",
                      "oversubscribed");
  for (const TierReport& tier : r.tiers) {
    text += fmt::format("  {:<22}{:>10}{:>26}{:>12}{:>18}\n", tier.name, count(tier.links),
                        range(rate(tier.link_min), rate(tier.link_max)), human_seconds(tier.latency.seconds()),
                        oversubscription_text(tier));
  }
  return text;
}

std::string topology_json(const std::string& cluster, const TopologyReport& r) {
  using Json = nlohmann::ordered_json;
  Json json = {{"cluster", cluster}, {"gpus", r.gpus},         {"nodes", r.nodes},
               {"nics", r.nics},     {"vertices", r.vertices}, {"links", r.links}};
  json["bisection_Bps"] = r.bisection.bytes_per_s();
  json["bisection_of_injection"] = r.bisection_of_injection;
  json["diameter_hops"] = r.diameter_hops;
  json["switches"] = Json::array();
  for (const SwitchRadix& s : r.switches) {
    json["switches"].push_back(
        {{"kind", to_text(s.kind)}, {"count", s.count}, {"ports_min", s.ports_min}, {"ports_max", s.ports_max}});
  }
  json["tiers"] = Json::array();
  for (const TierReport& tier : r.tiers) {
    json["tiers"].push_back({{"tier", tier.name},
                             {"links", tier.links},
                             {"link_min_Bps", tier.link_min.bytes_per_s()},
                             {"link_max_Bps", tier.link_max.bytes_per_s()},
                             {"latency_s", tier.latency.seconds()},
                             {"oversubscription", tier.oversubscription ? Json(*tier.oversubscription) : Json()}});
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace foretrain
