#include "sim/expansion.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "sim/resources.h"

namespace foretrain {
namespace {

struct DistinctCall {
  Collective op{};
  std::int64_t size = 0;
  bool operator==(const DistinctCall&) const = default;
};

/// By slot: the different calls that a program makes on it, in order of first appearance.
std::vector<std::vector<DistinctCall>> distinct_calls(const Program& program) {
  std::vector<std::vector<DistinctCall>> by_slot(program.slots);
  for (const Stream& s : program.streams)
    for (const Operation& o : s.operations) {
      if (o.kind != OperationKind::communicate) continue;
      auto& calls = by_slot[o.slot];
      const DistinctCall call{o.op, o.amount};
      if (std::find(calls.begin(), calls.end(), call) == calls.end()) calls.push_back(call);
    }
  return by_slot;
}

/// Decides choice and latency once a (call, shape of group), and collects usage vectors once a (communicator, choice).
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
    if (options.fidelity == Fidelity::flows) planner_.emplace(fabric, *router_);
    out_.alike.assign(router_->alike().begin(), router_->alike().end());
  }

  Expansion run() {
    for (const Program& p : job_.programs) calls_of_program_.push_back(distinct_calls(p));
    collect_rows();
    for (std::size_t c = 0; c < job_.communicators.size(); ++c) {
      out_.calls_begin.push_back(static_cast<std::uint32_t>(out_.calls.size()));
      plan_communicator(id_at<CommunicatorId>(c));
    }
    out_.calls_begin.push_back(static_cast<std::uint32_t>(out_.calls.size()));
    if (planner_) {
      reduce_sends();
    } else {
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

  const std::vector<DistinctCall>& calls_of(CommunicatorId id) const {
    const RankBinding& first = job_.ranks[job_.communicators[id.index()].members.front().index()];
    const auto slot = std::find(first.slots.begin(), first.slots.end(), id) - first.slots.begin();
    const auto& by_slot = calls_of_program_[first.program];
    static const std::vector<DistinctCall> nothing;
    return static_cast<std::size_t>(slot) < by_slot.size() ? by_slot[static_cast<std::size_t>(slot)] : nothing;
  }

  void collect_rows() {
    for (std::size_t c = 0; c < job_.communicators.size(); ++c)
      for (const DistinctCall& call : calls_of(id_at<CommunicatorId>(c)))
        out_.rows.push_back({job_.communicators[c].dimension, call.op});
    std::sort(out_.rows.begin(), out_.rows.end());
    out_.rows.erase(std::unique(out_.rows.begin(), out_.rows.end()), out_.rows.end());
  }

  void plan_communicator(CommunicatorId id) {
    const auto& calls = calls_of(id);
    if (calls.empty()) return;
    const Communicator& communicator = job_.communicators[id.index()];
    std::vector<GpuId> gpus;
    gpus.reserve(communicator.members.size());
    for (RankId r : communicator.members) gpus.push_back(job_.placement[r.index()]);
    GroupLayout layout(fabric_, std::move(gpus));
    GroupShape shape = shape_of(fabric_, layout);
    if (communicator.channels > 0) {
      layout.channels_max = communicator.channels;
      shape.nics_per_node = std::min(shape.nics_per_node, communicator.channels);
    }
    const CollectiveContext context{fabric_, *router_, transport_, options_.pieces, exchange_of(communicator)};

    std::vector<std::pair<std::pair<Collective, Choice>, ShapeId>> known;  // of this communicator
    for (const DistinctCall& call : calls) {
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
    out_.usage.push_back(algorithm(d.choice.algorithm).usage(op, d.choice.protocol, layout, context));
    if (times != 1) stretch(out_.usage.back(), times);
    out_.rate_cap.push_back(d.cap.value_or(uncapped));
    const auto id = id_at<ShapeId>(out_.usage.size() - 1);
    known.push_back({{op, d.choice}, id});
    return id;
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
    out_.resources = reduce_links(fabric_, planner_->loads(), planner_->caps());
    out_.rate_cap = planner_->caps();
    for (std::size_t s = 0; s < out_.rate_cap.size(); ++s) out_.weight.push_back(planner_->weight(s));
    out_.wire = std::move(*planner_).take_wire();
  }

  void reduce_usage() {
    out_.resources = reduce_links(fabric_, out_.usage, out_.rate_cap);
    for (const auto& usage : out_.usage) out_.weight.push_back(fair_weight(usage));
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

  /// Fairness is between flows of wire bytes: a transfer that puts w wire bytes a message byte on its busiest link, by
  /// f flows, progresses at f/w of a fair share there.
  static double fair_weight(const std::vector<Usage>& usage) {
    const auto busiest =
        std::max_element(usage.begin(), usage.end(), [](const Usage& a, const Usage& b) { return a.load < b.load; });
    return busiest->flows / busiest->load;
  }

  const Fabric& fabric_;
  const Transport& transport_;
  const Job& job_;
  const SimulateOptions& options_;
  std::unique_ptr<Router> router_;
  std::optional<SendPlanner> planner_;  // flows only
  std::vector<std::vector<std::vector<DistinctCall>>> calls_of_program_;
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
