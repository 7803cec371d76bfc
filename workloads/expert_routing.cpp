#include "workloads/expert_routing.h"

#include <algorithm>
#include <set>

#include "workloads/shard.h"
#include "workloads/traffic.h"

namespace foretrain {
namespace {

/// How many of `drawn` copies go to one of `groups` that get any.
Share copies_as_one(std::int64_t drawn, std::int64_t groups, std::int64_t limit, std::int64_t experts) {
  const auto narrow = [](std::int64_t n) { return static_cast<std::uint32_t>(n); };
  return as_share(static_cast<double>(drawn) /
                  expected_groups(narrow(groups), narrow(limit), narrow(experts), narrow(drawn)));
}

std::uint16_t index_of(const Exchange& exchange, std::vector<Exchange>& all) {
  const auto at = std::find(all.begin(), all.end(), exchange);
  const auto index = static_cast<std::uint16_t>(at - all.begin());
  if (at == all.end()) all.push_back(exchange);
  return index;
}

}  // namespace

Exchange expert_exchange(const Model& model, const Plan& plan, std::int64_t nodes) {
  const Experts& experts = *model.experts;
  const double factor = plan.expert_capacity > 0 ? 1 : expert_load(plan);
  Exchange exchange = one_in_demand(static_cast<std::size_t>(plan.ep), factor);
  if (plan.experts != ExpertExchange::two_hop) return exchange;
  exchange.usual = Algorithm::two_hop;
  if (plan.ep % nodes != 0 || experts.count % plan.ep != 0) return exchange;
  const std::int64_t limit = experts.group_limit > 0 ? std::min(experts.group_limit, nodes) : nodes;
  const std::int64_t within_reach = experts.count / nodes * limit;
  if (experts.topk > within_reach) return exchange;
  exchange.copies_per_node = copies_as_one(experts.topk, nodes, limit, experts.count);
  const std::int64_t ranks = plan.ep / nodes * limit;
  exchange.copies_per_rank =
      std::min(exchange.copies_per_node, copies_as_one(experts.topk, ranks, ranks, within_reach));
  return exchange;
}

void set_expert_exchanges(const Model& model, const Plan& plan, std::span<const std::uint32_t> node_of, Job& job) {
  if (!model.experts || plan.ep == 1) return;
  for (const auto& group : expert_groups(plan, Axis::ep)) {
    std::set<std::uint32_t> nodes;
    for (const RankId r : group) nodes.insert(node_of[r.index()]);
    const CommunicatorId id = job.ranks[group.front().index()].slots[static_cast<std::size_t>(Slot::ep)];
    const Exchange exchange = expert_exchange(model, plan, static_cast<std::int64_t>(nodes.size()));
    if (exchange != Exchange{}) job.communicators[id.index()].exchange = index_of(exchange, job.exchanges);
  }
}

}  // namespace foretrain
