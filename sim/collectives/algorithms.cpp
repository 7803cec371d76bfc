#include "sim/collectives/algorithms.h"

#include <fmt/format.h>

#include <stdexcept>

namespace foretrain {

namespace {

std::vector<std::unique_ptr<CollectiveAlgorithm>> make_all() {
  std::vector<std::unique_ptr<CollectiveAlgorithm>> all;  // in NCCL's order of preference at a tie
  all.push_back(make_tree());
  all.push_back(make_ring());
  all.push_back(make_collnet());
  all.push_back(make_nvls());
  all.push_back(make_nvls_sharp());
  all.push_back(make_nvls_tree());
  all.push_back(make_pat());
  all.push_back(make_pairwise());
  all.push_back(make_two_hop());
  all.push_back(make_halving_doubling());
  all.push_back(make_hierarchical());
  all.push_back(make_torus_ring());
  return all;
}

}  // namespace

std::span<const std::unique_ptr<CollectiveAlgorithm>> algorithms() {
  static const std::vector<std::unique_ptr<CollectiveAlgorithm>> all = make_all();
  return all;
}

std::optional<double> CollectiveAlgorithm::rate_cap(Collective, Protocol, const GroupShape&, const Transport&) const {
  return std::nullopt;
}

SendGraph CollectiveAlgorithm::sends(Collective, Protocol, Bytes, const GroupLayout&, const CollectiveContext&) const {
  throw std::invalid_argument(
      fmt::format("fidelity flows cannot play algorithm {}; allowed: fidelity fluid or analytic", to_text(id())));
}

const CollectiveAlgorithm& algorithm(Algorithm id) {
  for (const auto& candidate : algorithms()) {
    if (candidate->id() == id) return *candidate;
  }
  throw std::invalid_argument("no algorithm is called " + std::string(to_text(id)));
}

}  // namespace foretrain
