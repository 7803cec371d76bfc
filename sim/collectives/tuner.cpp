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

bool point_to_point(Collective op) { return op == Collective::all_to_all || op == Collective::send_recv; }

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

bool allowed(Choice choice, const Forced& forced) {
  return forced.algorithm.value_or(choice.algorithm) == choice.algorithm &&
         forced.protocol.value_or(choice.protocol) == choice.protocol;
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

/// Candidates within 10 % of NCCL's best: closer than its table is to the truth, and versions differ by more.
constexpr double near_tie = 1.1;

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

Choice choose(Collective op, Bytes size, const GroupShape& shape, const Transport& transport, const Forced& forced) {
  if (point_to_point(op)) return {Algorithm::pairwise, Protocol::simple};  // NCCL_ALGO does not reach them
  if (shape.ranks <= 1) return {Algorithm::ring, Protocol::simple};
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
