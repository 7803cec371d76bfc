// Action: one thing that a pipeline rank does with one microbatch on one of its chunks of the model; PipelineShape: how
// many ranks, chunks and microbatches there are and which stage each chunk is.
//
//   const PipelineShape shape{.ranks = 4, .chunks = 2, .microbatches = 8, .placement = Placement::vee};
//   stage_of(shape, 1, 1) == 6;              // there and back: 0 1 2 3, 4 5 6 7 from right to left
//   holder_of(shape, 6, 0) == Holder{.rank = 1, .chunk = 1};
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foretrain {

/// `backward` is the whole of it. `backward_input` makes the gradient of the stage's input, which the stage before
/// waits for; `backward_weight`, at any time later, those of its weights.
enum class Pass : std::uint8_t { forward, backward, backward_input, backward_weight };

struct Action {
  Pass pass{};
  std::int32_t chunk = 0;  ///< of this rank
  std::int32_t microbatch = 0;
  bool with_next = false;  ///< this and the next action run as one overlapped block: a forward and a backward
  auto operator<=>(const Action&) const = default;
};

/// Which stage a chunk of a rank is. With p ranks:
/// - loop: chunk c of rank r is stage c p + r;
/// - vee: there and back, so that chunk 0 of rank r is stage r and chunk 1 stage 2p-1-r;
/// - bidirectional: every stage twice. Chunk 0 of rank r is stage r, chunk 1 is stage p-1-r; the first half of the
///   microbatches runs through the chunks 0, the second half through the chunks 1.
enum class Placement : std::uint8_t { loop, vee, bidirectional };

[[nodiscard]] std::string_view to_text(Placement);

struct PipelineShape {
  std::int64_t ranks = 1;
  std::int64_t chunks = 1;  ///< a rank
  std::int64_t microbatches = 1;
  std::int64_t group = 1;  ///< microbatches that pass one chunk before the rank turns to the next (interleaved kinds)
  Placement placement = Placement::loop;
};

/// One chunk of one rank.
struct Holder {
  std::int64_t rank = 0;
  std::int32_t chunk = 0;
  auto operator<=>(const Holder&) const = default;
};

[[nodiscard]] std::int64_t stage_count(const PipelineShape& shape);
[[nodiscard]] std::int64_t stage_of(const PipelineShape& shape, std::int64_t rank, std::int32_t chunk);
/// The chunk through which `microbatch` passes `stage`.
[[nodiscard]] Holder holder_of(const PipelineShape& shape, std::int64_t stage, std::int32_t microbatch);
/// Who waits for what the action makes: the next stage for a forward's activations, the stage before for the gradient
/// of its input. Nothing at the ends of the pipeline and for `backward_weight`. If it is the same rank, there is no
/// message.
[[nodiscard]] std::optional<Holder> receiver_of(const PipelineShape& shape, std::int64_t rank, const Action& action);
/// Whose result the action waits for: the mirror of `receiver_of`.
[[nodiscard]] std::optional<Holder> sender_to(const PipelineShape& shape, std::int64_t rank, const Action& action);

/// By rank: what it runs, in order.
using ActionLists = std::vector<std::vector<Action>>;

/// A schedule that somebody wrote down (kind `file`).
struct ListedSchedule {
  std::string source;   ///< the file it came from
  PipelineShape shape;  ///< `group` has no meaning here
  ActionLists lists;
};

}  // namespace foretrain
