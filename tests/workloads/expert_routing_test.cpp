// Whose experts are in demand, and what travels once: by closed form, and as the network carries it.
#include "workloads/expert_routing.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/workloads/layer_play.h"
#include "workloads/shard.h"

namespace foretrain {
namespace {

using namespace test;

void forward(LayerWriter& w) { w.forward(Work::compute, "F", here); }

/// Different groups among `drawn` of `items`, spread over `groups`: g (1 - C(items - each, drawn) / C(items, drawn)).
double different(int groups, int items, int drawn) {
  double none = 1;
  for (int i = 0; i < drawn; ++i) none *= 1.0 * (items - items / groups - i) / (items - i);
  return groups * (1 - none);
}

/// DeepSeek-V3 (arXiv 2412.19437, section 2.1.2): 8 of 256 experts on 64 GPUs of 8 nodes, at most 4 nodes a token.
TEST(ExpertRouting, copies_of_a_token_go_to_a_node_once) {
  Model model = some_model(true);
  model.experts = Experts{.count = 256, .topk = 8, .ffn_hidden = 64, .group_limit = 4};
  Plan plan{.dp = 64, .ep = 64, .experts = ExpertExchange::two_hop};
  Exchange exchange = expert_exchange(model, plan, 8);
  EXPECT_NEAR(as_factor(exchange.copies_per_node), 8 / different(4, 128, 8), 1e-6);
  EXPECT_NEAR(as_factor(exchange.copies_per_rank), 8 / different(32, 128, 8), 1e-6);
  EXPECT_EQ(exchange.usual, Algorithm::two_hop);
  EXPECT_TRUE(exchange.demand.empty());
  model.experts->group_limit = 0;
  exchange = expert_exchange(model, plan, 8);
  EXPECT_NEAR(as_factor(exchange.copies_per_node), 8 / different(8, 256, 8), 1e-6);
  EXPECT_NEAR(as_factor(exchange.copies_per_rank), 8 / different(64, 256, 8), 1e-6);
  // One node: all copies of a token stay there.
  EXPECT_NEAR(as_factor(expert_exchange(model, plan, 1).copies_per_node), 8, 1e-6);
  // Three nodes do not hold equally many.
  EXPECT_EQ(expert_exchange(model, plan, 3).copies_per_node, whole_share);
  plan.experts = ExpertExchange::all_to_all;
  EXPECT_EQ(expert_exchange(model, plan, 8), Exchange{});
}

TEST(ExpertRouting, a_capacity_evens_out_the_demand) {
  const Model model = some_model(true);
  Plan plan{.dp = 4, .ep = 4, .expert_imbalance = 1.5};
  EXPECT_EQ(expert_exchange(model, plan, 4), one_in_demand(4, 1.5));
  plan.expert_capacity = 1.25;
  EXPECT_EQ(expert_exchange(model, plan, 4), Exchange{});
}

/// Nobody gets more than everything: of two ranks twice the mean, of one the mean.
TEST(ExpertRouting, demand_ends_where_one_rank_gets_all) {
  EXPECT_EQ(expert_load({.dp = 4, .ep = 2, .expert_imbalance = 3}), 2);
  EXPECT_EQ(expert_load({.dp = 4, .ep = 1, .expert_imbalance = 3}), 1);
  EXPECT_EQ(expert_exchange(some_model(true), {.dp = 4, .ep = 2, .expert_imbalance = 3}, 2), one_in_demand(2, 2));
}

/// The busiest rank gets, and gives back, f times the mean: 3/4 of T k h e over its NIC.
TEST(ExpertRouting, demand_makes_dispatch_and_combine_as_much_longer) {
  for (const double f : {1.0, 1.5, 4.0}) {
    const Setting s{.model = some_model(true),
                    .plan = {.dp = 4, .ep = 4, .expert_imbalance = f},
                    .training = {.sequence_length = 64}};
    const double once = 64 * 2 * 96 * 2 * 3.0 / 4 / rate;
    EXPECT_NEAR(measure(s, forward).step.seconds(), 2 * f * once, 1e-5 * once);
  }
}

double network_bytes(const Setting& s, std::uint32_t gpus_a_node) {
  const Fabric fabric = fabric_of(s, gpus_a_node);
  const Measured m = measure(s, forward, gpus_a_node);
  double sum = 0;
  for (std::size_t i = 0; i < m.links.size(); ++i) {
    const Link& link = fabric.link(id_at<LinkId>(i));
    if (fabric.tiers()[link.tier.index()].name == "nic") sum += m.links[i].bytes;
  }
  return sum;
}

/// 2 of 16 experts on 4 nodes of 2: what DeepEP's way saves on the network.
TEST(ExpertRouting, the_network_carries_a_token_once_a_node) {
  Setting s{.model = some_model(true), .plan = {.dp = 8, .ep = 8}, .training = {.sequence_length = 64}};
  const double every_copy = network_bytes(s, 2);
  // Dispatch and combine of 8 ranks, 6/8 of each to other nodes, up one NIC cable and down another.
  EXPECT_NEAR(every_copy, 2 * 2 * 8 * (64 * 2 * 96 * 2) * 6.0 / 8, 1);
  s.plan.experts = ExpertExchange::two_hop;
  EXPECT_NEAR(every_copy / network_bytes(s, 2), 2 / different(4, 16, 2), 1e-5);
}

}  // namespace
}  // namespace foretrain
