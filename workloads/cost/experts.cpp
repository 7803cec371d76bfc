// A mixture of experts on one rank: the router, the copying of tokens into the order of their experts and back, grouped
// products, shared experts.
#include "workloads/cost/pieces.h"

namespace foretrain {
namespace {

/// Bytes a score, token and expert: the product's score read and its probability written in fp32, read again for the
/// top-k, masked probabilities and the map of tokens to experts written (counted from Megatron-Core's router).
constexpr double score_bytes = 4 + 4 + 4 + 4 + 1;
/// Bytes an element of a copied token, from its place to the experts' order and back: read and written each way (fitted
/// as 8 in all to runs of 2025 and 2026 together, which need 0.9 to 2.1 times as much).
constexpr double reorder_bytes = 8;
constexpr double gate_bytes = 4;    ///< the shared experts' output read, scaled and written
constexpr double shared_bytes = 6;  ///< it and the routed experts' added: two reads, a write

PartCost shared_cost(const Pieces& p, const Shard& s, const ExpertShape& shape) {
  if (!shape.shared) return {};
  const std::int64_t output = s.sequence_tokens * p.model.hidden;
  PartCost cost = p.linear(shape.shared->in) + p.activation(s.tokens * s.shared_ffn) + p.linear(shape.shared->out) +
                  p.pass(output, shared_bytes);
  if (shape.gate) cost = cost + p.unquantised_linear(*shape.gate) + p.pass(output, gate_bytes);
  return cost;
}

}  // namespace

ExpertCost expert_cost(const Pieces& p, const Plan& plan, const Shard& s, const ExpertShape& shape) {
  // Copies that come from other ranks arrive sorted by sender, and are sorted by expert where a rank has several: half
  // of the reordering is done on that side.
  const bool sorts = plan.ep > 1 && s.experts > 1;
  const double sender_bytes = (sorts ? 0.25 : 0.5) * reorder_bytes;
  const double sort_bytes = 0.25 * reorder_bytes;
  const std::int64_t sent = s.sent_copies * p.model.hidden;
  const std::int64_t arrived = s.expert_copies() * p.model.hidden;

  const Pieces routing = p.for_experts();
  ExpertCost cost;
  cost.router =
      p.unquantised_linear(shape.router) + routing.pass(s.sequence_tokens * p.model.experts->count, score_bytes);
  cost.permute = routing.pass(sent, sender_bytes);
  cost.in = p.linear(shape.routed.in) + routing.activation(s.expert_copies() * s.expert_ffn);
  cost.out = p.linear(shape.routed.out);
  if (sorts) {
    cost.in = cost.in + routing.pass(arrived, sort_bytes);
    cost.out = cost.out + routing.pass(arrived, sort_bytes);
  }
  cost.unpermute = routing.pass(sent, sender_bytes);
  cost.shared = shared_cost(p, s, shape);
  return cost;
}

}  // namespace foretrain
