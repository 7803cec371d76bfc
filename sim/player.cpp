#include "sim/player.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

namespace foretrain {
namespace {

constexpr Time at_ps(std::int64_t ps) { return Time::from_start(picoseconds(ps)); }

}  // namespace

Player::Player(const Fabric& fabric, const Job& job, const SimulateOptions& options, Expansion expansion)
    : fabric_(fabric), job_(job), options_(options), expansion_(std::move(expansion)), network_(*expansion_.network) {
  lay_out();
  bind_members();
  find_peaks();
}

// ---- before the first event -------------------------------------------------------------------------------------

void Player::lay_out() {
  std::uint32_t streams = 0;
  std::size_t events = 0;
  for (std::size_t r = 0; r < job_.ranks.size(); ++r) {
    const Program& p = program_of(id_at<RankId>(r));
    stream_begin_.push_back(streams);
    event_begin_.push_back(events);
    streams += static_cast<std::uint32_t>(p.streams.size());
    events += p.events;
    operations_total_ += p.operation_count();
  }
  stream_begin_.push_back(streams);
  streams_.resize(streams);
  event_time_.assign(events, unset);
  peak_at_.assign(job_.ranks.size(), 0);

  for (const Program& p : job_.programs) {
    auto& masks = waiters_.emplace_back(p.events, 0U);
    for (std::size_t s = 0; s < p.streams.size(); ++s)
      for (const Operation& o : p.streams[s].operations)
        for (Event e : p.waits_of(o)) masks[e.index()] |= 1U << s;
  }
  const RankAccount empty{.busy = std::vector<Duration>(job_.activities.size()),
                          .exposed = std::vector<Duration>(expansion_.rows.size()),
                          .waiting = std::vector<Duration>(expansion_.rows.size()),
                          .tail = {}};
  accounts_.assign(job_.ranks.size(), empty);
  for (const RowKey& key : expansion_.rows) rows_.push_back({.dimension = key.dimension, .op = key.op});
  shape_bytes_.assign(expansion_.usage.size(), 0.0);
  trace_of_rank_.resize(job_.ranks.size());
  traces_.resize(options_.traced.size());
  for (std::size_t i = 0; i < options_.traced.size(); ++i)
    trace_of_rank_.at(options_.traced[i].index()) = static_cast<std::uint32_t>(i);
  if (options_.fidelity == Fidelity::flows)
    sends_.emplace(network_, queue_, job_.communicators.size(), expansion_.wire.shapes());
  if (!options_.traced.empty() && sends_) tiers_.emplace(fabric_, expansion_.wire);
  if (!options_.traced.empty() && !sends_) tiers_.emplace(fabric_, expansion_.usage);
}

void Player::bind_members() {
  // The one stream from which each program calls each slot.
  std::vector<std::vector<std::uint16_t>> stream_of_slot;
  for (const Program& p : job_.programs) {
    auto& by_slot = stream_of_slot.emplace_back(p.slots, std::uint16_t{0});
    for (std::size_t s = 0; s < p.streams.size(); ++s)
      for (const Operation& o : p.streams[s].operations)
        if (o.kind == OperationKind::communicate) by_slot[o.slot] = static_cast<std::uint16_t>(s);
  }
  calls_.resize(job_.communicators.size());
  for (std::size_t c = 0; c < job_.communicators.size(); ++c) {
    member_begin_.push_back(static_cast<std::uint32_t>(members_.size()));
    for (RankId r : job_.communicators[c].members) {
      const RankBinding& binding = job_.ranks[r.index()];
      const auto slot = static_cast<std::size_t>(
          std::find(binding.slots.begin(), binding.slots.end(), id_at<CommunicatorId>(c)) - binding.slots.begin());
      const auto& by_slot = stream_of_slot[binding.program];
      members_.push_back({r, slot < by_slot.size() ? by_slot[slot] : std::uint16_t{0}});
    }
  }
  member_begin_.push_back(static_cast<std::uint32_t>(members_.size()));
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
  while (!runnable_.empty()) {
    const Runnable next = runnable_.back();
    runnable_.pop_back();
    run_stream(next.rank, next.stream);
  }
}

void Player::run_stream(RankId rank, std::uint32_t stream) {
  StreamState& s = state_of(rank, stream);
  const auto& operations = program_of(rank).streams[stream].operations;
  while (s.cursor < operations.size()) {
    const Operation& o = operations[s.cursor];
    if (!wait_for_events(rank, stream, s, o)) return;
    ++operations_;
    switch (o.kind) {
      case OperationKind::communicate:
        arrive(rank, stream, s, o);
        return;
      case OperationKind::compute: {
        const std::int64_t took = job_.compute_ps(rank, o.amount);
        accounts_[rank.index()].busy[o.activity] += picoseconds(stream == 0 ? took : 0);
        record(rank, stream, s.cursor, s.clock, s.clock, s.clock + took, nullptr);
        finish_operation(rank, stream, s, o, s.clock + took);
        break;
      }
      case OperationKind::memory:
        record(rank, stream, s.cursor, s.clock, s.clock, s.clock, nullptr);
        note_peak(rank, s.cursor, s.clock);
        finish_operation(rank, stream, s, o, s.clock);
        break;
    }
  }
  s.state = State::done;
}

/// True if all that `o` waits for has ended; the stream's clock then stands where `o` starts.
bool Player::wait_for_events(RankId rank, std::uint32_t stream, StreamState& s, const Operation& o) {
  const std::int64_t* times = event_time_.data() + event_begin_[rank.index()];
  for (Event e : program_of(rank).waits_of(o)) {
    const std::int64_t at = times[e.index()];
    if (at == unset) {
      s.state = State::blocked;
      s.blocked_on = e.value;
      return false;
    }
    if (at <= s.clock) continue;
    // Only a computation on a side stream ends later than the clock of a stream that is running: the GPU is busy.
    if (stream == 0) accounts_[rank.index()].busy[0] += picoseconds(at - s.clock);
    s.clock = at;
  }
  s.state = State::ready;
  s.blocked_on = nothing;
  return true;
}

void Player::finish_operation(RankId rank, std::uint32_t stream, StreamState& s, const Operation& o, std::int64_t end) {
  s.clock = end;
  ++s.cursor;
  if (!o.sets) return;
  event_time_[event_begin_[rank.index()] + o.sets->index()] = end;
  std::uint32_t mask = waiters_[job_.ranks[rank.index()].program][o.sets->index()];
  for (; mask != 0; mask &= mask - 1) {
    const auto other = static_cast<std::uint32_t>(std::countr_zero(mask));
    StreamState& waiting = state_of(rank, other);
    if (other == stream || waiting.state != State::blocked || waiting.blocked_on != o.sets->value) continue;
    waiting.state = State::ready;
    runnable_.push_back({rank, other});
  }
}

// ---- calls ------------------------------------------------------------------------------------------------------

void Player::arrive(RankId rank, std::uint32_t stream, StreamState& s, const Operation& o) {
  static_cast<void>(stream);
  const CommunicatorId id = job_.ranks[rank.index()].slots[o.slot];
  CallState& call = calls_[id.index()];
  if (call.arrived == 0) {
    call.op = o.op;
    call.size = o.amount;
    call.ready = s.clock;
  } else if (call.op != o.op || call.size != o.amount) {
    refuse_mismatch(rank, id, call, o);
  }
  s.state = State::calling;
  call.ready = std::max(call.ready, s.clock);
  if (++call.arrived == member_begin_[id.index() + 1] - member_begin_[id.index()]) begin_call(id, call);
}

void Player::begin_call(CommunicatorId id, CallState& call) {
  call.planned = expansion_.find(id, call.op, call.size);
  ++transfers_;
  const bool shares = options_.fidelity != Fidelity::analytic && call.planned->moves;
  Duration wait = call.planned->idle_time;
  if (shares) wait = sends_ ? expansion_.plans[call.planned->plan].launch : call.planned->latency;
  call.moving_since = call.ready + (shares ? wait : call.planned->latency).ps();
  queue_.push(at_ps(call.ready) + wait, shares ? Phase::start : Phase::end, {.communicator = id.value});
}

void Player::start_moving(CommunicatorId id, Time now) {
  const CallState& call = calls_[id.index()];
  if (sends_) {
    if (sends_->begin(id, expansion_.plans[call.planned->plan], now)) end_call(id, now);
    return;
  }
  const FlowId flow = network_.start(call.planned->shape, static_cast<double>(call.size), now);
  if (communicator_of_flow_.size() <= flow.index()) communicator_of_flow_.resize(flow.index() + 1);
  communicator_of_flow_[flow.index()] = id.value;
}

void Player::handle(const Cue& cue, Time now) {
  if (cue.flow != nothing) {  // a transfer that the network said would end now
    const FlowId flow{cue.flow};
    if (!network_.current(flow, cue.generation)) return;
    network_.finish(flow, now);
    flow_ended(flow, now);
    return;
  }
  const CommunicatorId id{cue.communicator};
  if (cue.send != nothing) {
    if (sends_->latency_over(id, cue.send, now)) end_call(id, now);
    return;
  }
  if (options_.fidelity != Fidelity::analytic && calls_[id.index()].planned->moves)
    start_moving(id, now);
  else
    end_call(id, now);
}

void Player::flow_ended(FlowId flow, Time now) {
  if (!sends_) {
    end_call(CommunicatorId{communicator_of_flow_[flow.index()]}, now);
    return;
  }
  if (const auto whole = sends_->flow_ended(flow, now, tiers_ ? &*tiers_ : nullptr)) end_call(*whole, now);
}

void Player::end_call(CommunicatorId id, Time now) {
  CallState& call = calls_[id.index()];
  const PlannedCall& planned = *call.planned;
  const auto first = member_begin_[id.index()];
  const auto last = member_begin_[id.index() + 1];
  const std::int64_t n = last - first;

  CommunicationRow& row = rows_[planned.row];
  row.calls += static_cast<std::uint64_t>(n);
  const double message = static_cast<double>(n) * static_cast<double>(call.size);
  row.bytes += message;
  row.bus_bytes += message * busbw_factor(call.op, static_cast<std::size_t>(n));
  row.time += n * (now - at_ps(call.ready));
  row.idle_time += n * planned.idle_time;
  if (planned.moves && !sends_) {
    shape_bytes_[planned.shape.index()] += static_cast<double>(call.size);
    if (tiers_) tiers_->add(planned.shape, static_cast<double>(call.size), at_ps(call.moving_since), now);
  }

  const CallState ended = call;
  call.arrived = 0;
  ++call.number;
  for (auto m = first; m < last; ++m) {
    const auto [rank, stream] = members_[m];
    StreamState& s = state_of(rank, stream);
    const Operation& o = program_of(rank).streams[stream].operations[s.cursor];
    record(rank, stream, s.cursor, s.clock, ended.ready, now.ps(), &ended);
    if (stream == 0)
      book_wait(rank, planned.row, s.clock, ended.ready, now.ps());
    else if (o.sets) {
      StreamState& main = state_of(rank, 0);
      if (main.state == State::blocked && main.blocked_on == o.sets->value && main.clock < now.ps()) {
        book_wait(rank, planned.row, main.clock, ended.ready, now.ps());
        main.clock = now.ps();
      }
    }
    s.state = State::ready;
    finish_operation(rank, stream, s, o, now.ps());
    runnable_.push_back({rank, stream});
  }
  run_streams();
}

/// The main stream stood still over [from, end]; the call that held it up had all its members from `began` on.
void Player::book_wait(RankId rank, std::uint16_t row, std::int64_t from, std::int64_t began, std::int64_t end) {
  const std::int64_t split = std::clamp(began, from, end);
  accounts_[rank.index()].waiting[row] += picoseconds(split - from);
  accounts_[rank.index()].exposed[row] += picoseconds(end - split);
}

// ---- records ----------------------------------------------------------------------------------------------------

void Player::record(RankId rank, std::uint32_t stream, std::uint32_t index, std::int64_t start, std::int64_t began,
                    std::int64_t end, const CallState* call) {
  const auto& trace = trace_of_rank_[rank.index()];
  if (!trace) return;
  TracedOperation t{.stream = stream, .index = index, .start = at_ps(start), .began = at_ps(began), .end = at_ps(end)};
  if (call) {
    t.call = call->number;
    t.choice = call->planned->choice;
  }
  traces_[*trace].push_back(t);
}

void Player::note_peak(RankId rank, std::uint32_t index, std::int64_t at) {
  if (peaks_[job_.ranks[rank.index()].program].index == index) peak_at_[rank.index()] = at;
}

// ---- the loop ---------------------------------------------------------------------------------------------------

void Player::report_progress() const {
  constexpr std::uint64_t every = 1U << 16;  // events: a few hundred reports in a long run
  if (options_.progress && queue_.popped() % every == 0)
    options_.progress(static_cast<double>(operations_) / static_cast<double>(operations_total_));
}

Measured Player::play() {
  for (std::size_t r = job_.ranks.size(); r-- > 0;)
    for (std::size_t s = program_of(id_at<RankId>(r)).streams.size(); s-- > 0;)
      runnable_.push_back({id_at<RankId>(r), static_cast<std::uint32_t>(s)});
  run_streams();
  while (!queue_.empty()) {
    const Time now = queue_.next_time();
    do handle(queue_.pop(), now);
    while (!queue_.empty() && queue_.next_time() == now);
    for (const FluidNetwork::Finish& f : network_.resolve(now))
      queue_.push(f.at, Phase::end, {.flow = f.flow.value, .generation = f.generation});
    report_progress();
  }
  check_all_done();
  return sum_up();
}

/// What a rank did and waited for must be the step, to the picosecond; anything else is a fault of the player.
void Player::check_accounts(const Measured& m) {
  for (std::size_t r = 0; r < m.ranks.size(); ++r) {
    Duration sum = m.ranks[r].tail;
    for (const auto* parts : {&m.ranks[r].busy, &m.ranks[r].exposed, &m.ranks[r].waiting})
      for (Duration part : *parts) sum += part;
    if (sum != m.step)
      throw std::logic_error(
          fmt::format("the account of rank {} adds up to {}, the step is {}", r, to_text(sum), to_text(m.step)));
  }
}

Measured Player::sum_up() {
  Measured m;
  std::int64_t end = 0;
  for (const StreamState& s : streams_) end = std::max(end, s.clock);
  m.step = picoseconds(end);
  for (std::size_t r = 0; r < job_.ranks.size(); ++r) {
    const auto rank = id_at<RankId>(r);
    accounts_[r].tail = picoseconds(end - state_of(rank, 0).clock);
    const PeakOperation& peak = peaks_[job_.ranks[r].program];
    m.memory.push_back({peak.peak, peak.parts, at_ps(peak_at_[r])});
  }
  m.ranks = std::move(accounts_);
  check_accounts(m);

  std::vector<std::vector<bool>> in_row(rows_.size(), std::vector<bool>(job_.ranks.size()));
  for (std::size_t c = 0; c < job_.communicators.size(); ++c)
    for (auto i = expansion_.calls_begin[c]; i < expansion_.calls_begin[c + 1]; ++i)
      for (RankId r : job_.communicators[c].members) in_row[expansion_.calls[i].row][r.index()] = true;
  for (std::size_t i = 0; i < rows_.size(); ++i)
    rows_[i].ranks = static_cast<std::uint64_t>(std::count(in_row[i].begin(), in_row[i].end(), true));
  m.communication = std::move(rows_);

  sum_up_links(m);
  for (auto& trace : traces_)
    std::stable_sort(trace.begin(), trace.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
  m.traces = std::move(traces_);
  if (tiers_) m.tiers = tiers_->timelines(m.step);
  m.engine = {.operations = operations_,
              .events = queue_.popped(),
              .transfers = transfers_,
              .sends = sends_ ? sends_->sent() : 0,
              .resolves = network_.resolves(),
              .resources = expansion_.resource_links.size()};
  return m;
}

void Player::sum_up_links(Measured& m) const {
  m.links.resize(fabric_.link_count());
  for (std::size_t s = 0; s < shape_bytes_.size(); ++s)
    for (const Usage& u : expansion_.usage[s]) m.links[u.link.index()].bytes += u.wire * shape_bytes_[s];
  for (std::size_t s = 0; s < expansion_.wire.shapes(); ++s)
    for (const LinkLoad& e : expansion_.wire.of(s)) m.links[e.link.index()].bytes += e.load * sends_->shape_bytes()[s];
  for (std::size_t r = 0; r < expansion_.resource_links.size(); ++r) {
    const Duration full = network_.saturated(id_at<ResourceId>(r));
    for (LinkId l : expansion_.resource_links[r]) m.links[l.index()].saturated = full;
  }
}

// ---- when nothing moves any more --------------------------------------------------------------------------------

void Player::refuse_mismatch(RankId rank, CommunicatorId id, const CallState& call, const Operation& o) const {
  throw Deadlock(
      fmt::format("the job hangs: on communicator {} ({}), call {}, rank {} calls {} of {} where others call {} of {}",
                  id.value, job_.dimensions[job_.communicators[id.index()].dimension].name, call.number, rank.value,
                  to_text(o.op), to_text(bytes(o.amount)), to_text(call.op), to_text(bytes(call.size))));
}

std::string Player::describe_stuck(RankId rank, std::uint32_t stream) const {
  const StreamState& s = state_of(rank, stream);
  const Stream& program = program_of(rank).streams[stream];
  const Operation& o = program.operations[s.cursor];
  std::string text = fmt::format("  rank {}, stream {}, operation {} ({}): ", rank.value, program.name, s.cursor,
                                 program_of(rank).labels[o.label]);
  if (s.state == State::blocked) return text + fmt::format("waits for event {} of its own rank", s.blocked_on);
  const CommunicatorId id = job_.ranks[rank.index()].slots[o.slot];
  text += fmt::format("waits in {} of {} on communicator {} ({}), call {}; missing:", to_text(o.op),
                      to_text(bytes(o.amount)), id.value,
                      job_.dimensions[job_.communicators[id.index()].dimension].name, calls_[id.index()].number);
  int named = 0;
  for (auto m = member_begin_[id.index()]; m < member_begin_[id.index() + 1]; ++m) {
    const StreamState& other = state_of(members_[m].rank, members_[m].stream);
    if (other.state == State::calling) continue;
    if (++named <= 4) text += fmt::format(" rank {}", members_[m].rank.value);
  }
  if (named > 4) text += fmt::format(" and {} more", named - 4);
  return text;
}

void Player::check_all_done() const {
  constexpr std::size_t lines_max = 8;
  std::vector<std::string> lines;
  std::size_t stuck = 0;
  for (std::size_t r = 0; r < job_.ranks.size(); ++r) {
    bool rank_stuck = false;
    const auto rank = id_at<RankId>(r);
    for (std::uint32_t s = 0; s < program_of(rank).streams.size(); ++s) {
      if (state_of(rank, s).state == State::done) continue;
      rank_stuck = true;
      if (lines.size() < lines_max) lines.push_back(describe_stuck(rank, s));
    }
    stuck += rank_stuck ? 1 : 0;
  }
  if (stuck == 0) return;
  throw Deadlock(fmt::format("the job hangs: {} of {} ranks wait for ever:\n{}{}", stuck, job_.ranks.size(),
                             fmt::join(lines, "\n"), lines.size() == lines_max ? "\n  ..." : ""));
}

}  // namespace foretrain
