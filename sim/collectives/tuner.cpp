#include "sim/collectives/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/collectives/nccl_model.h"
#include "sim/collectives/timing.h"

namespace foretrain {

namespace {

/// What NCCL's tuner knows; all others run when they are forced, and rings of a torus on one.
bool is_nccls(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::ring:
    case Algorithm::tree:
    case Algorithm::nvls:
    case Algorithm::nvls_tree:
    case Algorithm::collnet:
    case Algorithm::nvls_sharp:
    case Algorithm::pat:
      return true;
    case Algorithm::pairwise:
    case Algorithm::halving_doubling:
    case Algorithm::hierarchical:
    case Algorithm::two_hop:
    case Algorithm::torus_ring:
      break;
  }
  return false;
}

std::string text(Choice choice) { return fmt::format("{} {}", to_text(choice.algorithm), to_text(choice.protocol)); }

/// All that this group can use, in order of preference at a tie.
std::vector<Choice> candidates(Collective op, const GroupShape& shape, const Transport& transport) {
  std::vector<Choice> all;
  for (const auto& candidate : algorithms()) {
    for (const Protocol protocol : all_protocols) {
      if (candidate->supports(op, protocol, shape, transport)) all.push_back({candidate->id(), protocol});
    }
  }
  return all;
}

/// What is forced of a collective: algorithms of point-to-point calls do not reach it.
Forced reaching(Forced forced) {
  if (forced.algorithm == Algorithm::pairwise || forced.algorithm == Algorithm::two_hop) forced.algorithm.reset();
  return forced;
}

bool allowed(Choice choice, const Forced& forced) {
  return forced.protocol.value_or(choice.protocol) == choice.protocol &&
         (forced.algorithm ? choice.algorithm == *forced.algorithm : is_nccls(choice.algorithm));
}

/// Without a wish to the contrary a group that fills a box of a torus uses all its cables.
Forced on_torus(Forced forced, Collective op, const GroupShape& shape, const Transport& transport) {
  const CollectiveAlgorithm& rings = algorithm(Algorithm::torus_ring);
  if (!forced.algorithm && rings.supports(op, forced.protocol.value_or(Protocol::simple), shape, transport)) {
    forced.algorithm = Algorithm::torus_ring;
  }
  return forced;
}

/// The closed form of our own time, on links of the shape's nominal rates.
double own_seconds(Collective op, Choice choice, Bytes size, const GroupShape& shape, const Transport& transport) {
  const CollectiveAlgorithm& how = algorithm(choice.algorithm);
  const double links = timing::simple_rate(op, choice.algorithm, shape, transport);
  const double rate = std::min(links, how.rate_cap(op, choice.protocol, shape, transport).value_or(links));
  const Duration latency = how.latency(op, choice.protocol, size, shape, transport);
  return latency.seconds() + static_cast<double>(size.count()) / rate;
}

struct Candidate {
  Choice choice;
  double estimate = 0;  ///< seconds, NCCL's
};

Choice pick(const std::vector<Candidate>& ranked, Collective op, Bytes size, const GroupShape& shape,
            const Transport& transport) {
  double least = std::numeric_limits<double>::infinity();
  for (const Candidate& candidate : ranked) least = std::min(least, candidate.estimate);
  std::optional<Choice> best;
  double best_seconds = 0;
  for (const Candidate& candidate : ranked) {
    if (candidate.estimate > near_tie * least) continue;
    const double seconds = own_seconds(op, candidate.choice, size, shape, transport);
    if (best && seconds >= best_seconds) continue;
    best = candidate.choice;
    best_seconds = seconds;
  }
  return *best;
}

[[noreturn]] void refuse(Collective op, const GroupShape& shape, const Forced& forced,
                         const std::vector<Choice>& possible) {
  std::vector<std::string_view> asked;
  if (forced.algorithm) asked.push_back(to_text(*forced.algorithm));
  if (forced.protocol) asked.push_back(to_text(*forced.protocol));
  std::vector<std::string> list;
  list.reserve(possible.size());
  for (const Choice choice : possible) list.push_back(text(choice));
  throw std::invalid_argument(fmt::format("{} of {} ranks on {} nodes cannot use the forced '{}'; possible: {}",
                                          to_text(op), shape.ranks, shape.nodes, fmt::join(asked, " "),
                                          fmt::join(list, ", ")));
}

}  // namespace

std::optional<Duration> nccl_estimate(Collective op, Choice choice, Bytes size, const GroupShape& shape,
                                      const Transport& transport) {
  if (shape.ranks <= 1 || !algorithm(choice.algorithm).supports(op, choice.protocol, shape, transport)) {
    return std::nullopt;
  }
  const double rate = nccl::bandwidth(op, choice, size, shape, transport);
  if (rate <= 0) return std::nullopt;
  const double latency = nccl::latency_us(op, choice, size, shape, transport);
  return microseconds(latency + static_cast<double>(size.count()) / (1000 * rate));
}

Choice choose(Collective asked, Bytes size, const GroupShape& shape, const Transport& transport,
              const Forced& asked_for) {
  const Collective op = played_as(asked);
  if (is_point_to_point(op)) {
    const bool two_hop = is_all_to_all(op) && asked_for.algorithm == Algorithm::two_hop;
    return {two_hop ? Algorithm::two_hop : Algorithm::pairwise, Protocol::simple};
  }
  if (shape.ranks <= 1) return {Algorithm::ring, Protocol::simple};
  const Forced forced = on_torus(reaching(asked_for), op, shape, transport);
  const std::vector<Choice> possible = candidates(op, shape, transport);
  std::vector<Candidate> ranked;
  ranked.reserve(possible.size());
  for (const Choice choice : possible) {
    if (!allowed(choice, forced)) continue;
    // Where NCCL has no estimate it never picks a combination, unless told to.
    const std::optional<Duration> estimate = nccl_estimate(op, choice, size, shape, transport);
    ranked.push_back({choice, estimate ? estimate->seconds() : std::numeric_limits<double>::infinity()});
  }
  if (ranked.empty()) refuse(op, shape, forced, possible);
  return pick(ranked, op, size, shape, transport);
}

}  // namespace foretrain
