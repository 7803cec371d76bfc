#include "scenarios/asymmetry.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include <fmt/format.h>

namespace foretrain {
namespace {

/// The pace of most, and how many are at another.
std::size_t at_another_pace(std::vector<Pace> pace) {
  std::sort(pace.begin(), pace.end());
  std::size_t most = 0;
  for (auto at = pace.begin(); at != pace.end();) {
    const auto end = std::upper_bound(at, pace.end(), *at);
    most = std::max(most, static_cast<std::size_t>(end - at));
    at = end;
  }
  return pace.size() - most;
}

/// Tiers whose links do not all have one bandwidth.
std::vector<std::string> uneven_tiers(const Fabric& fabric) {
  std::vector<std::optional<Bandwidth>> first(fabric.tiers().size());
  std::vector<bool> uneven(fabric.tiers().size());
  for (const Link& link : fabric.links()) {
    auto& known = first[link.tier.index()];
    if (!known) known = link.bandwidth;
    if (*known != link.bandwidth) uneven[link.tier.index()] = true;
  }
  std::vector<std::string> names;
  for (std::size_t t = 0; t < uneven.size(); ++t)
    if (uneven[t]) names.push_back(fabric.tiers()[t].name);
  return names;
}

}  // namespace

std::vector<std::string> asymmetries(const Scenario& scenario, const Fabric& fabric, const Job& job,
                                     const EngineStats& engine) {
  std::vector<std::string> causes;
  if (engine.rank_classes >= job.ranks.size() && engine.rank_kinds >= job.ranks.size()) return causes;
  if (engine.rank_classes <= job.programs.size()) return causes;
  if (const std::size_t others = at_another_pace(job.pace); others > 0)
    causes.push_back(fmt::format("{} GPU{} at another pace", others, others == 1 ? "" : "s"));
  if (engine.rank_classes == engine.rank_kinds) return causes;
  if (const std::vector<std::string> tiers = uneven_tiers(fabric); !tiers.empty())
    causes.push_back(fmt::format("links of different bandwidth in tier {}", fmt::join(tiers, ", ")));
  const Routing routing = scenario.network.routing;
  const bool hashed = routing == Routing::ecmp || routing == Routing::valiant || routing == Routing::static_up_down;
  const bool shares = engine.rank_classes > engine.rank_groupings;
  if (shares && hashed) causes.push_back(fmt::format("each route on its own way ({})", to_text(routing)));
  if (causes.empty()) causes.emplace_back("groups that lie differently on the fabric");
  return causes;
}

}  // namespace foretrain
