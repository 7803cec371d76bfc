// What the routing of tokens makes of a plan's expert-parallel all-to-alls: whose experts are in demand, how many
// copies of a token travel as one, and by which algorithm.
//
//   set_expert_exchanges(model, plan, node_of_rank, workload.job);   // behind `generate`
#pragma once

#include <cstdint>
#include <span>

#include "sim/program.h"
#include "workloads/plan.h"

namespace foretrain {

/// Of an expert-parallel group that sits on so many nodes, equally many ranks on each. The first rank gets
/// `plan.expert_imbalance` times the mean, unless experts take what their capacity says. With `two_hop` copies of a
/// token to one node, and there to one rank, travel as one (DeepEP): on the mean k / D with D different nodes, or
/// ranks, of k experts (`expected_groups`; at most `group_limit` nodes of a token). Where nodes cannot hold equally
/// many experts every copy travels by itself. Requires a model with experts.
[[nodiscard]] Exchange expert_exchange(const Model& model, const Plan& plan, std::int64_t nodes);

/// Gives every expert-parallel communicator of a generated job its exchange. `node_of`: by rank, a number that ranks of
/// one node share. Nothing happens to a model without experts.
void set_expert_exchanges(const Model& model, const Plan& plan, std::span<const std::uint32_t> node_of, Job& job);

}  // namespace foretrain
