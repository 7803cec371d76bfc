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

nlohmann::ordered_json collisions_json(const CollisionTable& table) {
  using Json = nlohmann::ordered_json;
  const CollisionReport& r = table.report;
  Json json = {{"pattern", to_text(table.pattern)},
               {"routing", to_text(table.routing)},
               {"seed", table.seed},
               {"pairs", r.pairs},
               {"flows_per_pair", r.flows_per_pair},
               {"lost_bandwidth", r.lost_bandwidth},
               {"busiest", table.busiest}};
  json["tiers"] = Json::array();
  for (const TierCollisions& tier : r.tiers) {
    Json histogram = Json::array();
    for (const auto& [flows, links] : tier.histogram) histogram.push_back({{"flows", flows}, {"links", links}});
    json["tiers"].push_back({{"tier", tier.tier},
                             {"direction", to_text(tier.direction)},
                             {"links", tier.links},
                             {"idle", tier.idle},
                             {"flows_min", tier.flows_min},
                             {"flows_mean", tier.flows_mean},
                             {"flows_max", tier.flows_max},
                             {"histogram", std::move(histogram)}});
  }
  return json;
}

/// "2 links carry 0, 5 carry 1, ..": the ten most loaded when there are more.
std::string histogram_text(const TierCollisions& tier) {
  constexpr std::size_t most = 10;
  std::string text;
  std::size_t left = tier.histogram.size();
  for (const auto& [flows, links] : tier.histogram) {
    if (left-- > most) continue;
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", count(links), count(flows));
  }
  return tier.histogram.size() > most ? ".. " + text : text;
}

}  // namespace

std::string collisions_text(const CollisionTable& table) {
  const CollisionReport& r = table.report;
  std::string text = fmt::format("\nCollisions: {} pairs ({}) send at once, {} flow{} each, {} routing, seed {}\n",
                                 count(r.pairs), to_text(table.pattern), r.flows_per_pair,
                                 r.flows_per_pair == 1 ? "" : "s", to_text(table.routing), table.seed);
  if (r.tiers.empty()) return text + "  no flow crosses a link between switches\n";
  text += fmt::format("  {:<22}{:>10}{:>10}{:>10}{:>10}{:>10}   {}\n", "flows on a link", "links", "idle", "min",
                      "mean", "max", "links x flows");
  for (const TierCollisions& tier : r.tiers) {
    text += fmt::format("  {:<22}{:>10}{:>10}{:>10}{:>10}{:>10}   {}\n",
                        fmt::format("{} {}", tier.tier, to_text(tier.direction)), count(tier.links), count(tier.idle),
                        significant(tier.flows_min), significant(tier.flows_mean), significant(tier.flows_max),
                        histogram_text(tier));
  }
  return text + fmt::format("  {:<22}{} of what an even spread gives, when all pairs advance together; busiest: {}\n",
                            "bandwidth lost", human_percent(r.lost_bandwidth), table.busiest);
}

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

std::string topology_json(const std::string& cluster, const TopologyReport& r,
                          const std::optional<CollisionTable>& collisions) {
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
  if (collisions) json["collisions"] = collisions_json(*collisions);
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace foretrain
