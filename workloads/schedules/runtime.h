// RuntimeAction: an action as PyTorch's pipeline runtime has it, in terms of global stages, with the messages between
// ranks and what FSDP does to the parameters of a stage. Schedules are lowered to lists of them and written as its CSV.
// Source: torch/distributed/pipelining/schedules.py.
//
//   to_csv(compute_only(lists, shape));                          // 0F0,0F1,0B0,...
//   to_csv(with_sharding(with_messages(lists, shape), shape));   // 0UNSHARD,0F0,0SEND_F0,...
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/schedules/action.h"

namespace foretrain {

enum class RuntimePass : std::uint8_t {
  forward,
  backward,
  backward_input,
  backward_weight,
  send_forward,  ///< stage s sends its activations, which stage s + 1 receives
  receive_forward,
  send_backward,  ///< stage s sends the gradient of its input, which stage s - 1 receives
  receive_backward,
  unshard,  ///< gathers the parameters of a stage
  reshard,
  reduce_gradients
};

struct RuntimePassName {
  RuntimePass pass{};
  std::string_view name;
};
/// As the CSV spells them.
inline constexpr RuntimePassName runtime_pass_names[] = {{RuntimePass::forward, "F"},
                                                         {RuntimePass::backward, "B"},
                                                         {RuntimePass::backward_input, "I"},
                                                         {RuntimePass::backward_weight, "W"},
                                                         {RuntimePass::send_forward, "SEND_F"},
                                                         {RuntimePass::receive_forward, "RECV_F"},
                                                         {RuntimePass::send_backward, "SEND_B"},
                                                         {RuntimePass::receive_backward, "RECV_B"},
                                                         {RuntimePass::unshard, "UNSHARD"},
                                                         {RuntimePass::reshard, "RESHARD"},
                                                         {RuntimePass::reduce_gradients, "REDUCE_GRAD"}};
/// What stands behind the two actions of an overlapped block.
inline constexpr std::string_view overlap_name = "OVERLAP_F_B";

struct RuntimeAction {
  RuntimePass pass{};
  std::int64_t stage = 0;                  ///< global
  std::optional<std::int32_t> microbatch;  ///< none for what FSDP does
  bool with_next = false;                  ///< as Action::with_next
  friend bool operator==(const RuntimeAction&, const RuntimeAction&) = default;
};
/// By rank.
using RuntimeLists = std::vector<std::vector<RuntimeAction>>;

/// Whether it is one of the four passes that compute; these have the same order as `Pass`.
[[nodiscard]] bool computes(RuntimePass pass);

[[nodiscard]] RuntimeLists compute_only(const ActionLists& lists, const PipelineShape& shape);

/// The same with all messages. Lists are played with F = I = W = 1; when something ends, its SEND is appended to its
/// rank and the RECV to the receiver's. So all lists are cuts of one global order, and cannot wait for each other in a
/// ring even if a message needs both sides at once and a rank has one message under way at a time.
[[nodiscard]] RuntimeLists with_messages(const ActionLists& lists, const PipelineShape& shape);

/// The same with what FSDP does: before each compute the next three stages of the rank are gathered, others given up;
/// gradients are reduced right after a stage's last backward.
[[nodiscard]] RuntimeLists with_sharding(const RuntimeLists& lists, const PipelineShape& shape);

/// "2F0", "(0F7;7B3)OVERLAP_F_B", "3UNSHARD"; a line a rank.
[[nodiscard]] std::string to_csv(const RuntimeLists& lists);

}  // namespace foretrain
