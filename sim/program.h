// Program: what one rank does, as operations on streams; Job: all ranks, their programs and communicators.
//
// The rules are CUDA's and NCCL's. Operations of one stream run in order; across streams an operation waits for
// named events, each set by one operation of the same rank when it ends. Stream 0 is the main stream: compute runs
// there, and the account of the rank's step is the account of that stream. Memory changes are made on the main
// stream only (a caching allocator acts in host order), so a peak does not depend on timing.
//
// Ranks that do the same share one Program; what differs between them, the communicators they call, is bound by
// slot. 16,384 ranks of a pipeline of 16 hold 16 programs.
//
//   ProgramBuilder p;
//   StreamId tp = p.stream("tp");
//   Event a = p.compute(main_stream, {.label = "F", .duration = milliseconds(3)});
//   Event b = p.communicate(tp, {.label = "ag", .op = Collective::all_gather, .size = mebibytes(64), .slot = 0, .after
//   = {a}}); p.compute(main_stream, {.label = "F", .duration = milliseconds(1), .after = {b}}); Program program =
//   std::move(p).build();
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sim/communicator.h"
#include "sim/exchange.h"
#include "topology/units.h"

namespace foretrain {

using StreamId = Id<struct StreamTag>;
using Event = Id<struct EventTag>;
inline constexpr StreamId main_stream{0};

enum class OperationKind : std::uint8_t { compute, communicate, memory };

/// Where an operation belongs, for traces. All optional; 0 is a valid value, so absence is `std::nullopt` in the
/// builder and `unset` in the packed form.
struct Place {
  static constexpr std::int16_t unset = INT16_MIN;
  std::int16_t microbatch = unset;
  std::int16_t chunk = unset;
  std::int16_t layer = unset;
  friend bool operator==(const Place&, const Place&) = default;
};

/// One operation, packed: a program of Llama 3 405B holds some 3,000 of them.
struct Operation {
  OperationKind kind = OperationKind::compute;
  std::uint8_t activity = 0;      ///< compute: index into Job::activities
  Collective op{};                ///< communicate
  std::uint8_t part = 0;          ///< memory: index into Job::memory_parts
  std::uint16_t label = 0;        ///< index into Program::labels
  std::uint16_t slot = 0;         ///< communicate: which of the rank's communicators
  std::uint32_t waits_begin = 0;  ///< into Program::waits
  std::uint32_t waits_count = 0;
  std::optional<Event> sets;  ///< only where somebody waits for it
  std::int64_t amount = 0;    ///< compute: picoseconds; communicate: bytes of the message; memory: bytes
  Place place;
};

/// A part of a whole, in parts of 2^20 so that it is the same on every machine: below 1; throws std::invalid_argument.
using RateShare = std::uint32_t;
inline constexpr RateShare whole_rate = RateShare{1} << 20;
[[nodiscard]] RateShare rate_share(double part);

struct Stream {
  std::string name;
  std::vector<Operation> operations;
  bool contends = false;  ///< its calls slow computation of the main stream (Program::contention)
};

struct Program {
  std::vector<Stream> streams;  ///< 0 is the main stream
  std::vector<Event> waits;     ///< pooled wait lists of all operations
  std::vector<std::string> labels;
  std::uint32_t events = 0;  ///< events are 0 .. events-1
  std::uint16_t slots = 0;   ///< communicator slots that it calls
  RateShare contention = 0;  ///< of its rate, what the main stream's computation loses while a call of a contending
                             ///< stream is in flight, from when all its members have arrived to its end

  [[nodiscard]] std::span<const Event> waits_of(const Operation& o) const {
    return std::span(waits).subspan(o.waits_begin, o.waits_count);
  }
  [[nodiscard]] std::size_t operation_count() const;
};

/// Appends operations; every call returns the event of that operation's end, to be waited for or ignored.
/// Misuse (waiting for an event of the future, memory off the main stream, a negative duration or size, one slot
/// called from two streams) throws std::invalid_argument.
class ProgramBuilder {
 public:
  ProgramBuilder();
  /// The stream of that name, made on first use. "main" is stream 0.
  StreamId stream(std::string_view name);
  /// Calls of that stream slow the main stream's computation by the program's contention; those of others do not.
  void contend(StreamId stream);
  void set_contention(RateShare lost) { program_.contention = lost; }

  struct Compute {
    std::string_view label;
    Duration duration;
    std::uint8_t activity = 0;
    Place place = {};
    std::span<const Event> after = {};
  };
  Event compute(StreamId stream, const Compute& what);

  struct Communicate {
    std::string_view label;
    Collective op{};
    Bytes size;
    std::uint16_t slot = 0;
    Place place = {};
    std::span<const Event> after = {};
  };
  Event communicate(StreamId stream, const Communicate& what);

  /// `change` > 0 takes memory, < 0 gives it back; no time passes.
  struct Memory {
    std::string_view label;
    Bytes change;
    std::uint8_t part = 0;
    Place place = {};
  };
  void memory(const Memory& what);

  [[nodiscard]] Program build() &&;

 private:
  struct Source {
    std::uint32_t stream;
    std::uint32_t index;
  };
  Event append(StreamId stream, Operation operation, std::string_view label, std::span<const Event> after);
  std::uint16_t label(std::string_view text);

  Program program_;
  std::vector<Source> source_;  ///< by provisional event: the operation that sets it
  std::unordered_map<std::string, std::uint16_t> label_index_;
  std::unordered_map<std::string, std::uint32_t> stream_index_;
  std::vector<std::optional<std::uint32_t>> slot_stream_;  ///< by slot: the stream that calls it
};

/// What a rank runs: a program, and its communicators by slot.
struct RankBinding {
  std::uint32_t program = 0;
  std::vector<CommunicatorId> slots;
};

/// A dimension of communication: how waiting for its peers is booked.
struct Dimension {
  std::string name;                ///< "tp"
  bool waiting_is_bubble = false;  ///< pipeline: time until the other side is ready is bubble, not communication
};

/// How much longer a rank takes to compute, in parts of 2^20 so that it is the same on every machine: 1.3 times as long
/// is paced(1.3). At most 4,000 times; throws std::invalid_argument.
using Pace = std::uint32_t;
inline constexpr Pace usual_pace = Pace{1} << 20;
[[nodiscard]] Pace paced(double times_as_long);

struct Job {
  std::vector<Program> programs;
  std::vector<Communicator> communicators;
  std::vector<Exchange> exchanges;  ///< that communicators refer to
  std::vector<RankBinding> ranks;
  std::vector<GpuId> placement;           ///< by rank: its GPU
  std::vector<std::string> activities;    ///< of compute: "compute", "recompute", "optimizer"
  std::vector<Dimension> dimensions;      ///< of communication
  std::vector<std::string> memory_parts;  ///< "parameters", "activations"
  std::vector<Pace> pace;                 ///< by rank: of its computation; empty: all at the usual pace

  /// What a computation of `duration_ps` takes on a rank; rounded to the nearest picosecond.
  [[nodiscard]] std::int64_t compute_ps(RankId rank, std::int64_t duration_ps) const;

  /// Every inconsistency (a slot without communicator, a member that does not call, sizes of vectors), or empty.
  [[nodiscard]] std::string check() const;
};

}  // namespace foretrain
