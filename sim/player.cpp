#include "sim/player.h"

#include <algorithm>
#include <bit>
#include <map>
#include <memory>

#include <fmt/format.h>

namespace foretrain {
namespace {

constexpr Time at_ps(std::int64_t ps) { return Time::from_start(picoseconds(ps)); }

std::vector<RateShare> lost_by_actor(const Job& job, const Quotient& quotient) {
  std::vector<RateShare> lost;
  lost.reserve(quotient.actors.size());
  for (const Quotient::Actor& actor : quotient.actors) lost.push_back(job.programs[actor.program].contention);
  return lost;
}

}  // namespace

Player::Player(const Fabric& fabric, const Job& job, const SimulateOptions& options, const Expansion& expansion,
               const Fold& fold, Quotient quotient)
    : fabric_(fabric),
      job_(job),
      options_(options),
      expansion_(expansion),
      fold_(fold),
      quotient_(std::move(quotient)),
      network_(*quotient_.network),
      queue_([this](const Cue& cue) { return is_void(cue); }),
      contention_(lost_by_actor(job, quotient_)) {
  lay_out();
  lay_out_contention();
  find_peaks();
}

// ---- before the first event -------------------------------------------------------------------------------------

void Player::lay_out() {
  std::uint32_t streams = 0;
  std::size_t events = 0;
  for (const Quotient::Actor& actor : quotient_.actors) {
    const Program& p = job_.programs[actor.program];
    stream_begin_.push_back(streams);
    event_begin_.push_back(events);
    streams += static_cast<std::uint32_t>(p.streams.size());
    events += p.events;
    operations_total_ += p.operation_count() * actor.ranks;
  }
  stream_begin_.push_back(streams);
  streams_.resize(streams);
  event_time_.assign(events, unset);
  peak_at_.assign(quotient_.actors.size(), 0);
  calls_.resize(quotient_.groups.size());
  played_.resize(quotient_.calls.size());

  for (const Program& p : job_.programs) {
    auto& masks = waiters_.emplace_back(p.events, 0U);
    for (std::size_t s = 0; s < p.streams.size(); ++s)
      for (const Operation& o : p.streams[s].operations)
        for (Event e : p.waits_of(o)) masks[e.index()] |= 1U << s;
  }
  const RankAccount empty{.busy = std::vector<Duration>(job_.activities.size()),
                          .exposed = std::vector<Duration>(expansion_.rows.size()),
                          .waiting = std::vector<Duration>(expansion_.rows.size()),
                          .tail = {},
                          .slowed = {}};
  accounts_.assign(quotient_.actors.size(), empty);
  trace_of_actor_.resize(quotient_.actors.size());
  traces_.resize(options_.traced.size());
  for (std::size_t i = 0; i < options_.traced.size(); ++i) {
    auto& trace = trace_of_actor_[fold_.ranks.of[options_.traced[i].index()]];
    if (!trace) trace = static_cast<std::uint32_t>(i);
  }
  if (options_.fidelity == Fidelity::flows)
    sends_.emplace(network_, queue_, quotient_.groups.size(), expansion_.wire.shapes());
  if (options_.traced.empty()) return;
  if (sends_)
    tiers_.emplace(fabric_, expansion_.wire);
  else
    tiers_.emplace(fabric_, expansion_, quotient_.shape_of);
}

void Player::find_peaks() {
  for (const Program& p : job_.programs) {
    PeakOperation& best = peaks_.emplace_back();
    best.parts.resize(job_.memory_parts.size());
    std::vector<Bytes> parts(job_.memory_parts.size());
    Bytes held;
    const auto& operations = p.streams.front().operations;
    for (std::size_t i = 0; i < operations.size(); ++i) {
      if (operations[i].kind != OperationKind::memory) continue;
      const Bytes change = bytes(operations[i].amount);
      held += change;
      parts[operations[i].part] += change;
      if (held <= best.peak) continue;
      best.peak = held;
      best.parts = parts;
      best.index = static_cast<std::uint32_t>(i);
    }
  }
}

// ---- streams ----------------------------------------------------------------------------------------------------

void Player::run_streams() {
  while (!runnable_.empty() || !waiting_mains_.empty()) {
    if (runnable_.empty()) {
      const ActorId next = waiting_mains_.back();
      waiting_mains_.pop_back();
      run_stream(next, 0);
      continue;
    }
    const Runnable next = runnable_.back();
    runnable_.pop_back();
    run_stream(next.actor, next.stream);
  }
}

void Player::run_stream(ActorId actor, std::uint32_t stream) {
  StreamState& s = state_of(actor, stream);
  const auto& operations = program_of(actor).streams[stream].operations;
  const bool may_contend = stream == 0 && contends(actor);
  while (s.cursor < operations.size()) {
    if (may_contend && !runnable_.empty()) return waiting_mains_.push_back(actor);
    const Operation& o = operations[s.cursor];
    if (!wait_for_events(actor, stream, s, o)) return;
    operations_ += quotient_.actors[actor.index()].ranks;
    switch (o.kind) {
      case OperationKind::communicate:
        arrive(actor, stream, s, o);
        return;
      case OperationKind::compute: {
        const std::int64_t took = job_.compute_ps(quotient_.actors[actor.index()].first, o.amount);
        if (may_contend && took > 0 && may_be_slowed(actor)) return start_computing(actor, s, took);
        accounts_[actor.index()].busy[o.activity] += picoseconds(stream == 0 ? took : 0);
        record(actor, stream, s.cursor, s.clock, s.clock, s.clock + took, nullptr);
        finish_operation(actor, stream, s, o, s.clock + took);
        break;
      }
      case OperationKind::memory:
        record(actor, stream, s.cursor, s.clock, s.clock, s.clock, nullptr);
        note_peak(actor, s.cursor, s.clock);
        finish_operation(actor, stream, s, o, s.clock);
        break;
    }
  }
  s.state = State::done;
}

/// True if all that `o` waits for has ended; the stream's clock then stands where `o` starts.
bool Player::wait_for_events(ActorId actor, std::uint32_t stream, StreamState& s, const Operation& o) {
  const std::int64_t* times = event_time_.data() + event_begin_[actor.index()];
  for (Event e : program_of(actor).waits_of(o)) {
    const std::int64_t at = times[e.index()];
    if (at == unset) {
      s.state = State::blocked;
      s.blocked_on = e.value;
      return false;
    }
    if (at <= s.clock) continue;
    // Only a computation on a side stream ends later than the clock of a stream that is running: the GPU is busy.
    if (stream == 0) accounts_[actor.index()].busy[0] += picoseconds(at - s.clock);
    s.clock = at;
  }
  s.state = State::ready;
  s.blocked_on = nothing;
  return true;
}

void Player::finish_operation(ActorId actor, std::uint32_t stream, StreamState& s, const Operation& o,
                              std::int64_t end) {
  s.clock = end;
  ++s.cursor;
  if (!o.sets) return;
  event_time_[event_begin_[actor.index()] + o.sets->index()] = end;
  std::uint32_t mask = waiters_[quotient_.actors[actor.index()].program][o.sets->index()];
  for (; mask != 0; mask &= mask - 1) {
    const auto other = static_cast<std::uint32_t>(std::countr_zero(mask));
    StreamState& waiting = state_of(actor, other);
    if (other == stream || waiting.state != State::blocked || waiting.blocked_on != o.sets->value) continue;
    waiting.state = State::ready;
    runnable_.push_back({actor, other});
  }
}

// ---- calls ------------------------------------------------------------------------------------------------------

void Player::arrive(ActorId actor, std::uint32_t stream, StreamState& s, const Operation& o) {
  static_cast<void>(stream);
  const GroupId id = group_in_slot(actor, o.slot);
  CallState& call = calls_[id.index()];
  if (call.arrived == 0) {
    call.op = o.op;
    call.size = o.amount;
    call.ready = s.clock;
  } else if (call.op != o.op || call.size != o.amount) {
    refuse_mismatch(actor, id, call, o);
  }
  s.state = State::calling;
  call.ready = std::max(call.ready, s.clock);
  const Quotient::Group& group = quotient_.groups[id.index()];
  if (++call.arrived == group.members_end - group.members_begin) begin_call(id, call);
}

void Player::begin_call(GroupId id, CallState& call) {
  const Quotient::Group& group = quotient_.groups[id.index()];
  call.planned = group.calls_begin;
  while (quotient_.calls[call.planned].size != call.size || quotient_.calls[call.planned].op != call.op) ++call.planned;
  const PlannedCall& planned = quotient_.calls[call.planned];
  transfers_ += group.communicators;
  const bool shares = options_.fidelity != Fidelity::analytic && planned.moves;
  Duration wait = planned.idle_time;
  if (shares) wait = sends_ ? expansion_.plans[planned.plan].launch : planned.latency;
  call.moving_since = call.ready + (shares ? wait : planned.latency).ps();
  if (slows_[id.index()]) {
    if (at_ps(call.ready) > now_)
      queue_.push(at_ps(call.ready), Phase::end, {.kind = CueKind::call_complete, .of = id.value});
    else
      call_complete(id, now_);
  }
  queue_.push(at_ps(call.ready) + wait, shares ? Phase::start : Phase::end,
              {.kind = CueKind::call_latency_over, .of = id.value});
}

void Player::start_moving(GroupId id, Time now) {
  const CallState& call = calls_[id.index()];
  if (sends_) {
    if (sends_->begin(id, expansion_.plans[quotient_.calls[call.planned].plan], now)) end_call(id, now);
    return;
  }
  const FlowId flow = network_.start(quotient_.calls[call.planned].shape, static_cast<double>(call.size), now);
  if (group_of_flow_.size() <= flow.index()) group_of_flow_.resize(flow.index() + 1);
  group_of_flow_[flow.index()] = id.value;
}

bool Player::is_void(const Cue& cue) const {
  switch (cue.kind) {
    case CueKind::flow_end:
      return !network_.current(FlowId{cue.of}, cue.generation);
    case CueKind::compute_end:
      return !contention_.current(ActorId{cue.of}, cue.generation);
    case CueKind::call_latency_over:
    case CueKind::call_complete:
    case CueKind::send_latency_over:
      return false;
  }
  return false;
}

void Player::handle(const Cue& cue, Time now) {
  if (is_void(cue)) return;
  const GroupId id{cue.of};
  switch (cue.kind) {
    case CueKind::flow_end:
      network_.finish(FlowId{cue.of}, now);
      return flow_ended(FlowId{cue.of}, now);
    case CueKind::compute_end:
      return computed(ActorId{cue.of}, now);
    case CueKind::call_complete:
      return call_complete(id, now);
    case CueKind::send_latency_over:
      if (sends_->latency_over(id, cue.send, now)) end_call(id, now);
      return;
    case CueKind::call_latency_over:
      if (options_.fidelity != Fidelity::analytic && quotient_.calls[calls_[id.index()].planned].moves)
        start_moving(id, now);
      else
        end_call(id, now);
  }
}

void Player::flow_ended(FlowId flow, Time now) {
  if (!sends_) {
    end_call(GroupId{group_of_flow_[flow.index()]}, now);
    return;
  }
  if (const auto whole = sends_->flow_ended(flow, now, tiers_ ? &*tiers_ : nullptr)) end_call(*whole, now);
}

void Player::end_call(GroupId id, Time now) {
  CallState& call = calls_[id.index()];
  const PlannedCall& planned = quotient_.calls[call.planned];
  ++played_[call.planned].calls;
  played_[call.planned].time += now - at_ps(call.ready);
  if (tiers_ && planned.moves && !sends_)
    tiers_->add(planned.shape, static_cast<double>(call.size), at_ps(call.moving_since), now);

  if (slows_[id.index()]) stop_slowing(id, now);
  const CallState ended = call;
  call.arrived = 0;
  ++call.number;
  for (const auto& [actor, stream, ranks] : quotient_.members_of(quotient_.groups[id.index()])) {
    StreamState& s = state_of(actor, stream);
    const Operation& o = program_of(actor).streams[stream].operations[s.cursor];
    record(actor, stream, s.cursor, s.clock, ended.ready, now.ps(), &ended);
    if (stream == 0)
      book_wait(actor, planned.row, s.clock, ended.ready, now.ps());
    else if (o.sets) {
      StreamState& main = state_of(actor, 0);
      if (main.state == State::blocked && main.blocked_on == o.sets->value && main.clock < now.ps()) {
        book_wait(actor, planned.row, main.clock, ended.ready, now.ps());
        main.clock = now.ps();
      }
    }
    s.state = State::ready;
    finish_operation(actor, stream, s, o, now.ps());
    runnable_.push_back({actor, stream});
  }
  run_streams();
}

/// The main stream stood still over [from, end]; the call that held it up had all its members from `began` on.
void Player::book_wait(ActorId actor, std::uint16_t row, std::int64_t from, std::int64_t began, std::int64_t end) {
  const std::int64_t split = std::clamp(began, from, end);
  accounts_[actor.index()].waiting[row] += picoseconds(split - from);
  accounts_[actor.index()].exposed[row] += picoseconds(end - split);
}

// ---- records ----------------------------------------------------------------------------------------------------

void Player::record(ActorId actor, std::uint32_t stream, std::uint32_t index, std::int64_t start, std::int64_t began,
                    std::int64_t end, const CallState* call) {
  const auto& trace = trace_of_actor_[actor.index()];
  if (!trace) return;
  TracedOperation t{.stream = stream, .index = index, .start = at_ps(start), .began = at_ps(began), .end = at_ps(end)};
  if (call) {
    t.call = call->number;
    t.choice = quotient_.calls[call->planned].choice;
  }
  traces_[*trace].push_back(t);
}

void Player::note_peak(ActorId actor, std::uint32_t index, std::int64_t at) {
  if (peaks_[quotient_.actors[actor.index()].program].index == index) peak_at_[actor.index()] = at;
}

// ---- the loop ---------------------------------------------------------------------------------------------------

void Player::report_progress() {
  if (!options_.progress || queue_.over() < next_report_) return;
  next_report_ = queue_.over() + report_every;
  options_.progress(static_cast<double>(operations_) / static_cast<double>(operations_total_));
}

Measured Player::play() {
  for (std::size_t a = quotient_.actors.size(); a-- > 0;)
    for (std::size_t s = program_of(id_at<ActorId>(a)).streams.size(); s-- > 0;)
      runnable_.push_back({id_at<ActorId>(a), static_cast<std::uint32_t>(s)});
  run_streams();
  while (!queue_.empty()) {
    const Time now = now_ = queue_.next_time();
    do handle(queue_.pop(), now);
    while (!queue_.empty() && queue_.next_time() == now);
    queue_.push_all(Phase::end, network_.resolve(now), [](const FluidNetwork::Finish& f) {
      return std::pair{f.at, Cue{.kind = CueKind::flow_end, .of = f.flow.value, .generation = f.generation}};
    });
    report_progress();
  }
  check_all_done();
  return sum_up();
}

/// What a rank did and waited for must be the step, to the picosecond; anything else is a fault of the player.
void Player::check_accounts(const Measured& m) {
  for (const RankAccount& account : m.ranks.values()) {
    Duration sum = account.tail;
    for (const auto* parts : {&account.busy, &account.exposed, &account.waiting})
      for (Duration part : *parts) sum += part;
    if (sum != m.step)
      throw std::logic_error(
          fmt::format("the account of a rank adds up to {}, the step is {}", to_text(sum), to_text(m.step)));
  }
}

Measured Player::sum_up() {
  Measured m;
  std::int64_t end = 0;
  for (const StreamState& s : streams_) end = std::max(end, s.clock);
  m.step = picoseconds(end);
  sum_up_ranks(m);
  check_accounts(m);
  m.communication = communication();
  sum_up_links(m);
  for (auto& trace : traces_)
    std::stable_sort(trace.begin(), trace.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
  for (std::size_t i = 0; i < traces_.size(); ++i) {  // a rank of a class that is traced already
    const std::uint32_t played = *trace_of_actor_[fold_.ranks.of[options_.traced[i].index()]];
    if (played != i) traces_[i] = traces_[played];
  }
  m.traces = std::move(traces_);
  if (tiers_) m.tiers = tiers_->timelines(m.step);
  m.engine = {.operations = operations_,
              .events = queue_.over(),
              .transfers = transfers_,
              .sends = sends_ ? sends_->sent() : 0,
              .resolves = network_.resolves(),
              .resources = expansion_.resources.capacity.size(),
              .rank_classes = fold_.ranks.size(),
              .rank_kinds = fold_.rank_kinds,
              .rank_groupings = fold_.rank_groupings};
  return m;
}

void Player::sum_up_ranks(Measured& m) {
  std::vector<MemoryPeak> memory;
  for (std::size_t a = 0; a < quotient_.actors.size(); ++a) {
    accounts_[a].tail = m.step - picoseconds(state_of(id_at<ActorId>(a), 0).clock);
    const PeakOperation& peak = peaks_[quotient_.actors[a].program];
    memory.push_back({peak.peak, peak.parts, at_ps(peak_at_[a])});
  }
  const auto class_of = std::make_shared<const std::vector<std::uint32_t>>(fold_.ranks.of);
  m.ranks = {std::move(accounts_), class_of};
  m.memory = {std::move(memory), class_of};
}

/// Bytes are added up as whole numbers, so that it does not matter in which portions.
std::vector<CommunicationRow> Player::communication() const {
  __extension__ typedef __int128 Whole;  // NOLINT(modernize-use-using): __extension__ wants a typedef
  struct Sum {
    CommunicationRow row;
    Whole bytes = 0;
    std::map<std::uint32_t, Whole> by_size;  ///< of bytes, by ranks of the communicator
    std::vector<bool> makes;                 ///< by actor: such calls
  };
  std::vector<Sum> sums;
  for (const RowKey& key : expansion_.rows)
    sums.push_back({.row = {.dimension = key.dimension, .op = key.op},
                    .bytes = 0,
                    .by_size = {},
                    .makes = std::vector<bool>(quotient_.actors.size())});
  for (const Quotient::Group& group : quotient_.groups)
    for (std::uint32_t i = group.calls_begin; i < group.calls_end; ++i) {
      const PlannedCall& planned = quotient_.calls[i];
      Sum& sum = sums[planned.row];
      const std::uint64_t ranks = std::uint64_t{group.ranks} * group.communicators;
      const std::uint64_t calls = ranks * played_[i].calls;
      sum.row.calls += calls;
      sum.bytes += Whole{planned.size} * Whole{calls};
      sum.by_size[group.ranks] += Whole{planned.size} * Whole{calls};
      sum.row.time += played_[i].time.times(ranks);
      sum.row.idle_time += TotalTime(planned.idle_time, calls);
      for (const Quotient::Member& m : quotient_.members_of(group)) sum.makes[m.actor.index()] = true;
    }
  std::vector<CommunicationRow> rows;
  for (Sum& sum : sums) {
    sum.row.bytes = static_cast<double>(sum.bytes);
    for (const auto& [ranks, bytes] : sum.by_size)
      sum.row.bus_bytes += static_cast<double>(bytes) * busbw_factor(sum.row.op, ranks);
    for (std::size_t a = 0; a < sum.makes.size(); ++a) sum.row.ranks += sum.makes[a] ? quotient_.actors[a].ranks : 0;
    rows.push_back(sum.row);
  }
  return rows;
}

void Player::sum_up_links(Measured& m) const {
  m.links.resize(fabric_.link_count());
  if (sends_) {
    for (std::size_t s = 0; s < expansion_.wire.shapes(); ++s)
      for (const LinkLoad& e : expansion_.wire.of(s))
        m.links[e.link.index()].bytes += e.load * sends_->shape_bytes()[s];
  } else {
    std::vector<std::uint64_t> moved(quotient_.shape_of.size());  // by the network's shape: message bytes
    for (std::size_t i = 0; i < quotient_.calls.size(); ++i)
      if (const PlannedCall& call = quotient_.calls[i]; call.moves)
        moved[call.shape.index()] += static_cast<std::uint64_t>(call.size) * played_[i].calls;
    for (std::size_t s = 0; s < expansion_.usage.shapes(); ++s) {
      const auto bytes = static_cast<double>(moved[quotient_.shape_of[s]]);
      const auto links = expansion_.usage.links(s);
      const auto amounts = expansion_.usage.amounts(s);
      for (std::size_t i = 0; i < links.size(); ++i) m.links[links[i].index()].bytes += amounts[i].wire * bytes;
    }
  }
  for (std::size_t r = 0; r < expansion_.resources.capacity.size(); ++r) {
    const Duration full = network_.saturated(ResourceId{fold_.resources.of[r]});
    for (LinkId l : expansion_.resources.links_of(r)) m.links[l.index()].saturated = full;
  }
  for (std::size_t l = 0; l < expansion_.alike.size(); ++l) m.links[l] = m.links[expansion_.alike[l].index()];
}

// ---- when nothing moves any more --------------------------------------------------------------------------------

std::string Player::dimension_of(GroupId id) const {
  return job_.dimensions[job_.communicators[quotient_.groups[id.index()].first.index()].dimension].name;
}

void Player::refuse_mismatch(ActorId actor, GroupId id, const CallState& call, const Operation& o) const {
  throw Deadlock(
      fmt::format("the job hangs: on communicator {} ({}), call {}, rank {} calls {} of {} where others call {} of {}",
                  quotient_.groups[id.index()].first.value, dimension_of(id), call.number,
                  quotient_.actors[actor.index()].first.value, to_text(o.op), to_text(bytes(o.amount)),
                  to_text(call.op), to_text(bytes(call.size))));
}

std::string Player::describe_stuck(ActorId actor, std::uint32_t stream) const {
  const StreamState& s = state_of(actor, stream);
  const Stream& program = program_of(actor).streams[stream];
  const Operation& o = program.operations[s.cursor];
  std::string text =
      fmt::format("  rank {}, stream {}, operation {} ({}): ", quotient_.actors[actor.index()].first.value,
                  program.name, s.cursor, program_of(actor).labels[o.label]);
  if (s.state == State::blocked) return text + fmt::format("waits for event {} of its own rank", s.blocked_on);
  const GroupId id = group_in_slot(actor, o.slot);
  const Quotient::Group& group = quotient_.groups[id.index()];
  text += fmt::format("waits in {} of {} on communicator {} ({}), call {}; missing:", to_text(o.op),
                      to_text(bytes(o.amount)), group.first.value, dimension_of(id), calls_[id.index()].number);
  int named = 0;
  for (const Quotient::Member& m : quotient_.members_of(group)) {
    if (state_of(m.actor, m.stream).state == State::calling) continue;
    if (++named <= 4) text += fmt::format(" rank {}", quotient_.actors[m.actor.index()].first.value);
  }
  if (named > 4) text += fmt::format(" and {} more", named - 4);
  return text;
}

void Player::check_all_done() const {
  constexpr std::size_t lines_max = 8;
  std::vector<std::string> lines;
  std::size_t stuck = 0;
  for (std::size_t a = 0; a < quotient_.actors.size(); ++a) {
    bool actor_stuck = false;
    const auto actor = id_at<ActorId>(a);
    for (std::uint32_t s = 0; s < program_of(actor).streams.size(); ++s) {
      if (state_of(actor, s).state == State::done) continue;
      actor_stuck = true;
      if (lines.size() < lines_max) lines.push_back(describe_stuck(actor, s));
    }
    stuck += actor_stuck ? quotient_.actors[a].ranks : 0;
  }
  if (stuck == 0) return;
  throw Deadlock(fmt::format("the job hangs: {} of {} ranks wait for ever:\n{}{}", stuck, job_.ranks.size(),
                             fmt::join(lines, "\n"), lines.size() == lines_max ? "\n  ..." : ""));
}

}  // namespace foretrain
