#include "sim/expansion.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "sim/resources.h"
#include "topology/routing/footprint.h"

namespace foretrain {
namespace {

struct DistinctCall {
  Collective op{};
  std::int64_t size = 0;
  auto operator<=>(const DistinctCall&) const = default;
};
using DistinctCalls = std::vector<DistinctCall>;

/// By slot: the different calls that a program makes on it, in order of first appearance.
std::vector<DistinctCalls> distinct_calls(const Program& program) {
  std::vector<DistinctCalls> by_slot(program.slots);
  for (const Stream& s : program.streams)
    for (const Operation& o : s.operations) {
      if (o.kind != OperationKind::communicate) continue;
      auto& calls = by_slot[o.slot];
      const DistinctCall call{o.op, o.amount};
      if (std::find(calls.begin(), calls.end(), call) == calls.end()) calls.push_back(call);
    }
  return by_slot;
}

/// Fairness is between flows of wire bytes: a transfer that puts w wire bytes a message byte on its busiest link, by f
/// flows, progresses at f/w of a fair share there.
double fair_weight(const std::vector<Usage>& usage) {
  const auto busiest =
      std::max_element(usage.begin(), usage.end(), [](const Usage& a, const Usage& b) { return a.load < b.load; });
  return busiest->flows / busiest->load;
}

/// Decides choice and latency once a (call, shape of group), and collects usage vectors once a (communicator, choice).
/// Communicators that make the same calls and lie alike on the fabric (topology/routing/footprint.h) are expanded once:
/// all that an algorithm knows of a group are its members' order, their nodes and the routes between them.
class Expander {
 public:
  Expander(const Fabric& fabric, const Transport& transport, const Job& job, const SimulateOptions& options)
      : fabric_(fabric),
        transport_(transport),
        job_(job),
        options_(options),
        router_(make_router(options.routing, fabric,
                            RouterOptions{.seed = options.seed,
                                          .flows_per_pair = options.flows_per_pair,
                                          // Trees in the switches choose among links that routes load alike.
                                          .first_of_alike = options.fidelity != Fidelity::flows &&
                                                            !transport.network.in_network_reduction})) {
    if (options.fidelity == Fidelity::flows) {
      planner_.emplace(fabric, *router_);
    } else if (options.fold) {
      footprints_ = router_->footprints();
    }
    out_.alike.assign(router_->alike().begin(), router_->alike().end());
  }

  Expansion run() {
    number_calls();
    for (std::size_t c = 0; c < job_.communicators.size(); ++c) {
      out_.calls_begin.push_back(static_cast<std::uint32_t>(out_.calls.size()));
      plan_communicator(id_at<CommunicatorId>(c));
    }
    out_.calls_begin.push_back(static_cast<std::uint32_t>(out_.calls.size()));
    patterns_ = {};
    known_shapes_ = {};
    spots_ = {};
    if (planner_) {
      reduce_sends();
    } else {
      router_.reset();  // what it has cached is large, and so is what comes now
      reduce_usage();
    }
    return std::move(out_);
  }

 private:
  struct Decision {
    Choice choice;
    Duration latency;
    std::optional<double> cap;
  };
  /// What a communicator was expanded to, for those that lie alike and make the same calls.
  struct Pattern {
    std::uint32_t first_call = 0;
    std::uint32_t calls = 0;
    std::size_t first_shape = 0;
    std::vector<std::size_t> spots;  ///< by shape: where its links' begin, in spots_
  };
  /// A shape by what it depends on beside footprint and exchange.
  struct KnownShape {
    Collective op{};
    Choice choice;
    std::size_t shape = 0;
    std::size_t spots = 0;  ///< where its links' begin, in spots_
  };

  static constexpr std::uint32_t no_calls = 0;  ///< number of the empty list

  /// Numbers the lists of distinct calls, finds every communicator's, and collects the rows.
  void number_calls() {
    std::map<DistinctCalls, std::uint32_t> known = {{{}, no_calls}};
    std::vector<std::vector<std::uint32_t>> by_program;
    lists_.emplace_back();
    for (const Program& p : job_.programs) {
      auto& by_slot = by_program.emplace_back();
      for (DistinctCalls& calls : distinct_calls(p)) {
        const auto [at, fresh] = known.try_emplace(calls, static_cast<std::uint32_t>(lists_.size()));
        by_slot.push_back(at->second);
        if (fresh) lists_.push_back(std::move(calls));
      }
    }
    std::set<std::pair<std::uint8_t, std::uint32_t>> pairs;
    list_of_.reserve(job_.communicators.size());
    for (std::size_t c = 0; c < job_.communicators.size(); ++c) {
      const Communicator& communicator = job_.communicators[c];
      const RankBinding& first = job_.ranks[communicator.members.front().index()];
      const auto slot =
          std::find(first.slots.begin(), first.slots.end(), id_at<CommunicatorId>(c)) - first.slots.begin();
      const auto& by_slot = by_program[first.program];
      list_of_.push_back(static_cast<std::size_t>(slot) < by_slot.size() ? by_slot[static_cast<std::size_t>(slot)]
                                                                         : no_calls);
      if (list_of_.back() != no_calls) pairs.emplace(communicator.dimension, list_of_.back());
    }
    for (const auto& [dimension, list] : pairs)
      for (const DistinctCall& call : lists_[list]) out_.rows.push_back({dimension, call.op});
    std::sort(out_.rows.begin(), out_.rows.end());
    out_.rows.erase(std::unique(out_.rows.begin(), out_.rows.end()), out_.rows.end());
  }

  void plan_communicator(CommunicatorId id) {
    if (list_of_[id.index()] == no_calls) return;
    const Communicator& communicator = job_.communicators[id.index()];
    gpus_.clear();
    for (const RankId r : communicator.members) gpus_.push_back(job_.placement[r.index()]);
    if (footprints_ == nullptr) {
      expand_communicator(id);
      return;
    }
    footprints_->find(gpus_, footprint_);
    Digest lie = footprint_.key;
    lie.append(communicator.exchange ? *communicator.exchange + std::uint64_t{1} : 0);
    lie.append(std::bit_cast<std::uint64_t>(communicator.time_factor));
    lie.append(communicator.channels);
    Digest key = lie;
    key.append(std::uint64_t{list_of_[id.index()]} << 32 | communicator.dimension);
    const auto [pattern, fresh] = patterns_.try_emplace(key);
    if (!fresh) {
      repeat(pattern->second);
      return;
    }
    pattern_ = &pattern->second;
    shapes_alike_ = &known_shapes_[lie];
    *pattern_ = {.first_call = static_cast<std::uint32_t>(out_.calls.size()), .first_shape = out_.usage.shapes()};
    expand_communicator(id);
    pattern_->calls = static_cast<std::uint32_t>(out_.calls.size() - pattern_->first_call);
  }

  /// For the communicator whose footprint was found last.
  void repeat(const Pattern& pattern) {
    const std::size_t first_shape = out_.usage.shapes();
    for (std::uint32_t c = 0; c < pattern.calls; ++c) {
      PlannedCall call = out_.calls[pattern.first_call + c];
      if (call.moves) call.shape = id_at<ShapeId>(call.shape.index() - pattern.first_shape + first_shape);
      out_.calls.push_back(call);
    }
    for (std::size_t s = 0; s < pattern.spots.size(); ++s) add_image(pattern.first_shape + s, pattern.spots[s]);
  }

  /// The shape that loads, in the footprint found last, what another does in its own.
  void add_image(std::size_t of, std::size_t spots) {
    out_.usage.add_image(of, [&](std::size_t i) { return footprints_->link_at(spots_[spots + i], footprint_); });
    out_.rate_cap.push_back(out_.rate_cap[of]);
    out_.weight.push_back(out_.weight[of]);
  }

  /// The communicator that sits on `gpus_`.
  void expand_communicator(CommunicatorId id) {
    const Communicator& communicator = job_.communicators[id.index()];
    GroupLayout layout(fabric_, gpus_);
    GroupShape shape = shape_of(fabric_, layout);
    if (communicator.channels > 0) {
      layout.channels_max = communicator.channels;
      shape.nics_per_node = std::min(shape.nics_per_node, communicator.channels);
    }
    const CollectiveContext context{fabric_, *router_, transport_, options_.pieces, exchange_of(communicator)};

    std::vector<std::pair<std::pair<Collective, Choice>, ShapeId>> known;  // of this communicator
    for (const DistinctCall& call : lists_[list_of_[id.index()]]) {
      PlannedCall planned{.op = call.op, .size = call.size};
      planned.row = out_.row_of(communicator.dimension, call.op);
      if (layout.ranks() > 1) {
        const Decision& d = decide(call, shape, forced_of(call.op, context.exchange), communicator.time_factor);
        planned.choice = d.choice;
        planned.latency = planned.idle_time = d.latency;
        planned.moves = call.size > 0 && moves_bytes(call.op);
        if (planned.moves && planner_) {
          plan_sends(planned, d, layout, context, communicator.time_factor);
        } else if (planned.moves) {
          planned.shape = shape_for(known, call.op, d, layout, context, communicator.time_factor);
        }
      }
      out_.calls.push_back(planned);
    }
  }

  const Exchange& exchange_of(const Communicator& communicator) const {
    return communicator.exchange ? job_.exchanges[*communicator.exchange] : even_exchange;
  }

  /// What is forced of a call: by the run, or for want of that by the software that makes it.
  Forced forced_of(Collective op, const Exchange& exchange) const {
    Forced forced = options_.forced;
    const bool said = forced.algorithm == Algorithm::pairwise || forced.algorithm == Algorithm::two_hop;
    if (is_all_to_all(op) && exchange.usual && !said) forced.algorithm = exchange.usual;
    return forced;
  }

  const Decision& decide(const DistinctCall& call, const GroupShape& shape, const Forced& forced, double times) {
    const auto key = std::tuple(call.op, call.size, shape, forced.algorithm, times);
    if (const auto at = decisions_.find(key); at != decisions_.end()) return at->second;
    const Collective op = played_as(call.op);
    const Bytes size = moves_bytes(call.op) ? bytes(call.size) : Bytes{};
    const Choice choice = choose(op, size, shape, transport_, forced);
    const CollectiveAlgorithm& how = algorithm(choice.algorithm);
    return decisions_
        .emplace(key, stretched({choice, how.latency(op, choice.protocol, size, shape, transport_),
                                 how.rate_cap(op, choice.protocol, shape, transport_)},
                                times))
        .first->second;
  }

  static Decision stretched(Decision d, double times) {
    if (times == 1) return d;
    d.latency = picoseconds(std::llround(static_cast<double>(d.latency.ps()) * times));
    if (d.cap) *d.cap /= times;
    return d;
  }

  ShapeId shape_for(std::vector<std::pair<std::pair<Collective, Choice>, ShapeId>>& known, Collective op,
                    const Decision& d, const GroupLayout& layout, const CollectiveContext& context, double times) {
    for (const auto& [key, id] : known)
      if (key == std::pair(op, d.choice)) return id;
    const auto id = id_at<ShapeId>(out_.usage.shapes());
    known.push_back({{op, d.choice}, id});
    if (footprints_ == nullptr) {
      add_shape(op, d, layout, context, times);
      return id;
    }
    const auto alike = std::find_if(shapes_alike_->begin(), shapes_alike_->end(), [&](const KnownShape& shape) {
      return shape.op == op && shape.choice == d.choice;
    });
    pattern_->spots.push_back(alike == shapes_alike_->end() ? spots_.size() : alike->spots);
    if (alike != shapes_alike_->end()) {
      add_image(alike->shape, alike->spots);
      return id;
    }
    shapes_alike_->push_back({op, d.choice, id.index(), spots_.size()});
    add_shape(op, d, layout, context, times);
    for (const LinkId link : out_.usage.links(id.index())) spots_.push_back(footprints_->spot(link, footprint_));
    return id;
  }

  void add_shape(Collective op, const Decision& d, const GroupLayout& layout, const CollectiveContext& context,
                 double times) {
    auto usage = algorithm(d.choice.algorithm).usage(op, d.choice.protocol, layout, context);
    if (times != 1) stretch(usage, times);
    out_.usage.add(usage);
    out_.rate_cap.push_back(d.cap.value_or(uncapped));
    out_.weight.push_back(fair_weight(usage));
  }

  void plan_sends(PlannedCall& call, const Decision& d, const GroupLayout& layout, const CollectiveContext& context,
                  double times) {
    const CollectiveAlgorithm& how = algorithm(d.choice.algorithm);
    SendGraph graph = how.sends(call.op, d.choice.protocol, bytes(call.size), layout, context);
    if (times != 1) graph.stretch(times);
    const auto message = static_cast<double>(call.size);
    call.plan = static_cast<std::uint32_t>(out_.plans.size());
    out_.plans.push_back(planner_->plan(graph, message, d.cap));
    double rate = d.cap.value_or(uncapped);
    std::vector<Usage> usage = how.usage(call.op, d.choice.protocol, layout, context);
    if (times != 1) stretch(usage, times);
    for (const Usage& u : usage)
      rate = std::min(rate, static_cast<double>(fabric_.link(u.link).bandwidth.bytes_per_s()) / u.load);
    call.idle_time = call.latency + fluid_time(message, rate);
  }

  void reduce_sends() {
    planner_->close();
    // Sends on one way have one shape and may be in flight together: a cap bounds each, not what they load a link with.
    out_.resources = reduce_links(fabric_, planner_->loads(), std::vector<double>(planner_->caps().size(), uncapped));
    out_.rate_cap = planner_->caps();
    for (std::size_t s = 0; s < out_.rate_cap.size(); ++s) out_.weight.push_back(planner_->weight(s));
    out_.wire = std::move(*planner_).take_wire();
  }

  void reduce_usage() {
    out_.resources = reduce_links(fabric_, out_.usage, out_.rate_cap);
    for (PlannedCall& call : out_.calls) {
      call.idle_time = call.latency;
      if (call.moves) call.idle_time += fluid_time(static_cast<double>(call.size), idle_rate(call.shape));
    }
  }

  /// Of a call alone on the network.
  [[nodiscard]] double idle_rate(ShapeId shape) const {
    double rate = out_.rate_cap[shape.index()];
    for (const Load& l : out_.resources.of(shape.index()))
      rate = std::min(rate, out_.resources.capacity[l.resource.index()] / l.load);
    return rate;
  }

  const Fabric& fabric_;
  const Transport& transport_;
  const Job& job_;
  const SimulateOptions& options_;
  std::unique_ptr<Router> router_;
  std::optional<SendPlanner> planner_;      // flows only
  const Footprints* footprints_ = nullptr;  // null: every communicator is expanded by itself
  std::vector<DistinctCalls> lists_;        // that differ
  std::vector<std::uint32_t> list_of_;      // by communicator: into lists_
  std::vector<GpuId> gpus_;                 // of the communicator at hand
  Footprint footprint_;
  std::unordered_map<Digest, Pattern, DigestHash> patterns_;                      // looked up only, never iterated
  std::unordered_map<Digest, std::vector<KnownShape>, DigestHash> known_shapes_;  // by footprint and exchange; the same
  std::vector<FootprintSpot> spots_;
  Pattern* pattern_ = nullptr;                       // of the communicator at hand
  std::vector<KnownShape>* shapes_alike_ = nullptr;  // of its footprint
  std::map<std::tuple<Collective, std::int64_t, GroupShape, std::optional<Algorithm>, double>, Decision> decisions_;
  Expansion out_;
};

}  // namespace

void Expansion::shapes_of(CommunicatorId communicator, std::vector<ShapeId>& shapes) const {
  shapes.clear();
  for (const PlannedCall& call : calls_of(communicator))
    if (call.moves && std::find(shapes.begin(), shapes.end(), call.shape) == shapes.end()) shapes.push_back(call.shape);
}

std::uint16_t Expansion::row_of(std::uint8_t dimension, Collective op) const {
  return static_cast<std::uint16_t>(std::lower_bound(rows.begin(), rows.end(), RowKey{dimension, op}) - rows.begin());
}

Expansion expand(const Fabric& fabric, const Transport& transport, const Job& job, const SimulateOptions& options) {
  return Expander(fabric, transport, job, options).run();
}

}  // namespace foretrain
