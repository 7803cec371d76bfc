#include "workloads/program/track.h"

#include <utility>

namespace foretrain {
namespace {

template <class Enum>
constexpr std::uint8_t number(Enum e) {
  return static_cast<std::uint8_t>(e);
}
constexpr std::uint16_t number(Slot slot) { return static_cast<std::uint16_t>(slot); }

/// One stream a slot; what happens once a step shares the data-parallel one, as in Megatron-Core.
std::string_view stream_name(Slot slot) {
  switch (slot) {
    case Slot::tp:
      return "tp";
    case Slot::cp:
      return "cp";
    case Slot::ep:
      return "ep";
    case Slot::etp:
      return "etp";
    case Slot::dp:
    case Slot::embedding:
    case Slot::model:
      return "dp";
    case Slot::dp_replica:
      return "dp replica";
    case Slot::edp:
      return "edp";
    case Slot::edp_replica:
      return "edp replica";
    case Slot::forward_to_next:
      return "pp forward out";
    case Slot::forward_from_previous:
      return "pp forward in";
    case Slot::forward_to_previous:
      return "pp forward out, back";
    case Slot::forward_from_next:
      return "pp forward in, back";
    case Slot::backward_to_previous:
      return "pp backward out";
    case Slot::backward_from_next:
      return "pp backward in";
    case Slot::backward_to_next:
      return "pp backward out, back";
    case Slot::backward_from_previous:
      return "pp backward in, back";
  }
  return "";
}

}  // namespace

void Track::compute(Work work, std::string_view label, Duration duration, Place place) {
  if (duration == Duration{}) return;
  if (pending_ > Duration{} && (work != work_ || label != label_)) flush();
  work_ = work;
  label_ = label;
  place_ = place;
  pending_ += duration;
}

void Track::hold(std::optional<Event> e) {
  if (!e) return;
  flush();
  holds_.push_back(*e);
}

Event Track::call(Slot slot, std::string_view label, Collective op, Bytes size, Place place) {
  return post(slot, label, op, size, place, now());
}

Event Track::post(Slot slot, std::string_view label, Collective op, Bytes size, Place place,
                  std::span<const Event> after) {
  return builder_.communicate(stream_of(slot), {label, op, size, number(slot), place, after});
}

void Track::delay(Slot slot, std::string_view label, Duration duration, Place place, std::span<const Event> after) {
  builder_.compute(stream_of(slot), {label, duration, number(Work::other), place, after});
}

void Track::memory(std::string_view label, MemoryPart part, Bytes change, Place place) {
  if (change == Bytes{}) return;
  flush();
  builder_.memory({label, change, number(part), place});
}

std::vector<Event> Track::now() {
  flush();
  std::vector<Event> after = holds_;
  if (last_) after.push_back(*last_);
  return after;
}

Program Track::finish() && {
  flush();
  if (!holds_.empty())
    builder_.compute(main_stream, {.label = "end", .duration = {}, .activity = number(Work::other), .after = holds_});
  return std::move(builder_).build();
}

void Track::flush() {
  if (pending_ == Duration{}) return;
  last_ = builder_.compute(main_stream, {label_, pending_, number(work_), place_, holds_});
  holds_.clear();
  pending_ = {};
}

StreamId Track::stream_of(Slot slot) {
  const StreamId stream = builder_.stream(stream_name(slot));
  if (!is_pipeline_message(slot)) builder_.contend(stream);
  return stream;
}

}  // namespace foretrain
