#include "sim/program.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

namespace foretrain {

std::size_t Program::operation_count() const {
  std::size_t count = 0;
  for (const Stream& s : streams) count += s.operations.size();
  return count;
}

ProgramBuilder::ProgramBuilder() { stream("main"); }

StreamId ProgramBuilder::stream(std::string_view name) {
  const auto [at, fresh] =
      stream_index_.try_emplace(std::string(name), static_cast<std::uint32_t>(program_.streams.size()));
  if (fresh) program_.streams.push_back({std::string(name), {}});
  return StreamId{at->second};
}

void ProgramBuilder::contend(StreamId stream) { program_.streams.at(stream.index()).contends = true; }

std::uint16_t ProgramBuilder::label(std::string_view text) {
  const auto [at, fresh] =
      label_index_.try_emplace(std::string(text), static_cast<std::uint16_t>(program_.labels.size()));
  if (fresh) {
    if (program_.labels.size() >= std::numeric_limits<std::uint16_t>::max())
      throw std::invalid_argument("a program has too many different labels; put numbers into Place instead");
    program_.labels.emplace_back(text);
  }
  return at->second;
}

Event ProgramBuilder::append(StreamId stream, Operation operation, std::string_view text,
                             std::span<const Event> after) {
  if (stream.index() >= program_.streams.size()) throw std::invalid_argument("an operation on an unknown stream");
  auto& operations = program_.streams[stream.index()].operations;
  operation.label = label(text);
  operation.waits_begin = static_cast<std::uint32_t>(program_.waits.size());
  for (Event e : after) {
    if (e.index() >= source_.size()) throw std::invalid_argument("an operation waits for an event of the future");
    if (source_[e.index()].stream != stream.value) program_.waits.push_back(e);  // else stream order says it already
  }
  operation.waits_count = static_cast<std::uint32_t>(program_.waits.size()) - operation.waits_begin;
  source_.push_back({stream.value, static_cast<std::uint32_t>(operations.size())});
  operations.push_back(operation);
  return id_at<Event>(source_.size() - 1);
}

Event ProgramBuilder::compute(StreamId stream, const Compute& what) {
  if (what.duration < Duration{}) throw std::invalid_argument("a compute operation of negative duration");
  return append(stream,
                {.kind = OperationKind::compute,
                 .activity = what.activity,
                 .sets = std::nullopt,
                 .amount = what.duration.ps(),
                 .place = what.place},
                what.label, what.after);
}

Event ProgramBuilder::communicate(StreamId stream, const Communicate& what) {
  if (what.size < Bytes{}) throw std::invalid_argument("a message of negative size");
  if (slot_stream_.size() <= what.slot) slot_stream_.resize(what.slot + std::size_t{1});
  auto& caller = slot_stream_[what.slot];
  if (caller && *caller != stream.value)
    throw std::invalid_argument(fmt::format("communicator slot {} is called from two streams", what.slot));
  caller = stream.value;
  program_.slots = std::max<std::uint16_t>(program_.slots, static_cast<std::uint16_t>(what.slot + 1));
  return append(stream,
                {.kind = OperationKind::communicate,
                 .op = what.op,
                 .slot = what.slot,
                 .sets = std::nullopt,
                 .amount = what.size.count(),
                 .place = what.place},
                what.label, what.after);
}

void ProgramBuilder::memory(const Memory& what) {
  append(main_stream,
         {.kind = OperationKind::memory,
          .part = what.part,
          .sets = std::nullopt,
          .amount = what.change.count(),
          .place = what.place},
         what.label, {});
}

Program ProgramBuilder::build() && {
  // Only operations that somebody waits for keep an event, numbered in the order in which they were appended.
  std::vector<std::optional<Event>> final_event(source_.size());
  for (Event e : program_.waits) final_event[e.index()] = Event{};
  for (std::size_t i = 0; i < source_.size(); ++i) {
    if (!final_event[i]) continue;
    final_event[i] = Event{program_.events++};
    program_.streams[source_[i].stream].operations[source_[i].index].sets = final_event[i];
  }
  for (Event& e : program_.waits) e = *final_event[e.index()];
  return std::move(program_);
}

namespace {

std::string check_program(const Program& program, std::size_t which, const Job& job) {
  for (const Stream& s : program.streams)
    for (const Operation& o : s.operations) {
      if (o.kind == OperationKind::compute && o.activity >= job.activities.size())
        return fmt::format("program {}: activity {} has no name", which, o.activity);
      if (o.kind == OperationKind::memory && o.part >= job.memory_parts.size())
        return fmt::format("program {}: memory part {} has no name", which, o.part);
    }
  return {};
}

std::string check_communicator(const Communicator& c, std::size_t which, const Job& job) {
  if (c.members.empty()) return fmt::format("communicator {} has no members", which);
  if (c.dimension >= job.dimensions.size()) return fmt::format("communicator {} has no dimension", which);
  if (c.exchange && *c.exchange >= job.exchanges.size())
    return fmt::format("communicator {}: there is no exchange {}", which, *c.exchange);
  if (const std::string wrong = c.exchange ? job.exchanges[*c.exchange].check(c.members.size()) : ""; !wrong.empty())
    return fmt::format("communicator {}, exchange {}: {}", which, *c.exchange, wrong);
  for (RankId r : c.members) {
    if (r.index() >= job.ranks.size()) return fmt::format("communicator {}: there is no rank {}", which, r.value);
    const auto& slots = job.ranks[r.index()].slots;
    const auto uses = std::count(slots.begin(), slots.end(), id_at<CommunicatorId>(which));
    // A group of one talks to nobody: it may stand for all slots that its rank does not use.
    if (uses == 0 || (uses > 1 && c.members.size() > 1))
      return fmt::format("communicator {}: rank {} binds it to {} slots, and must to one", which, r.value, uses);
  }
  return {};
}

std::string check_binding(const RankBinding& binding, std::size_t which, const Job& job) {
  if (binding.program >= job.programs.size()) return fmt::format("rank {}: no program {}", which, binding.program);
  if (binding.slots.size() < job.programs[binding.program].slots)
    return fmt::format("rank {}: its program calls {} communicators, {} are bound", which,
                       job.programs[binding.program].slots, binding.slots.size());
  for (CommunicatorId id : binding.slots) {
    if (id.index() >= job.communicators.size()) return fmt::format("rank {}: no communicator {}", which, id.value);
    const auto& members = job.communicators[id.index()].members;
    if (members.size() <= 2 && std::count(members.begin(), members.end(), id_at<RankId>(which)) != 1)
      return fmt::format("rank {} is bound to communicator {}, of which it is no member", which, id.value);
  }
  return {};
}

}  // namespace

Pace paced(double times_as_long) {
  constexpr double most = 4000;
  if (!(times_as_long > 0 && times_as_long <= most))
    throw std::invalid_argument(fmt::format("a pace of {}; allowed: above 0, at most {}", times_as_long, most));
  return std::max(Pace{1}, static_cast<Pace>(std::llround(times_as_long * usual_pace)));
}

RateShare rate_share(double part) {
  if (!(part >= 0 && part < 1)) throw std::invalid_argument(fmt::format("a share of {}; allowed: 0 to below 1", part));
  return std::min(static_cast<RateShare>(std::llround(part * whole_rate)), whole_rate - 1);
}

std::int64_t Job::compute_ps(RankId rank, std::int64_t duration_ps) const {
  if (pace.empty()) return duration_ps;
  __extension__ typedef __int128 Int128;
  return static_cast<std::int64_t>((Int128{duration_ps} * pace[rank.index()] + usual_pace / 2) / usual_pace);
}

std::string Job::check() const {
  if (!pace.empty() && pace.size() != ranks.size())
    return fmt::format("{} ranks, but a pace of {} of them", ranks.size(), pace.size());
  if (placement.size() != ranks.size())
    return fmt::format("{} ranks, but {} of them are placed on a GPU", ranks.size(), placement.size());
  std::string wrong;
  for (std::size_t i = 0; wrong.empty() && i < programs.size(); ++i) wrong = check_program(programs[i], i, *this);
  for (std::size_t i = 0; wrong.empty() && i < ranks.size(); ++i) wrong = check_binding(ranks[i], i, *this);
  for (std::size_t i = 0; wrong.empty() && i < communicators.size(); ++i)
    wrong = check_communicator(communicators[i], i, *this);
  return wrong;
}

}  // namespace foretrain
