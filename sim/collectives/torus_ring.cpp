// Torus ring: rings along every dimension at once. The message is cut in 2d parts, one a dimension and direction; part
// (k, +) is scattered round the rings of dimension k first, then k+1, ... in growing direction, part (k, -) the other
// way, and gathered back in the opposite order. All 2d cables of a router are busy all the time: on a torus of equal
// extents each carries (n-1)/n / 2d of the message in each half of an all-reduce.
//
// Where the cable that closes a line is missing, the last router's sends go back over the line: every link carries two
// rings, and the dimension takes twice as long.
//
// Source: Jain and Sabharwal, "Optimal bucket algorithms for large MPI collectives on torus interconnects", ICS 2010
// (multi-dimensional buckets, all links busy); Jouppi et al. 2023 (arXiv 2304.01433) use such rings on TPU v4.
#include "sim/collectives/algorithms.h"
#include "sim/collectives/timing.h"
#include "sim/collectives/torus_box.h"

namespace foretrain {

namespace {

double passes(Collective op) { return op == Collective::all_reduce ? 2 : 1; }

/// The rings of one call, part by part.
class TorusSends {
 public:
  TorusSends(SendGraph& graph, const TorusBox& box, double part, double goodput, Duration step)
      : graph_(graph), box_(box), part_(part) {
    send_.in_node_goodput = send_.between_goodput = goodput;
    send_.latency = step;
    std::size_t stride = 1;
    for (const TorusLine& line : box.lines) {
      strides_.push_back(stride);
      stride *= line.extent;
    }
  }

  /// Part (start, forwards or not): scattered along `start`, start + 1, ... and, or else only, gathered the other way.
  void add(Collective op, std::size_t start, bool forwards) {
    last_sent_.clear();
    last_got_.clear();
    const std::size_t dimensions = box_.lines.size();
    std::vector<double> chunk(dimensions);  // in the i-th dimension of the part
    double left = part_;
    for (std::size_t i = 0; i < dimensions; ++i) {
      left /= box_.lines[(start + i) % dimensions].extent;
      chunk[i] = left;
    }
    // All of a part's rings take turns, and each gets all that the protocol lets the part have.
    send_.cap_wire = passes(op) * (part_ - left);
    for (std::size_t i = 0; i < dimensions && op != Collective::all_gather; ++i)
      go_round((start + i) % dimensions, chunk[i], forwards);
    for (std::size_t i = dimensions; i-- > 0 && op != Collective::reduce_scatter;)
      go_round((start + i) % dimensions, chunk[i], forwards);
  }

 private:
  /// A step begins when a router's last one is over and the chunk is there; a new dimension goes on from the old.
  void go_round(std::size_t dimension, double chunk, bool forwards) {
    const std::size_t extent = box_.lines[dimension].extent;
    const std::size_t stride = strides_[dimension];
    const std::size_t n = box_.gpus.size();
    std::vector<std::uint32_t> sent(n), got(n);
    send_.wire = chunk;
    for (std::size_t step = 0; step + 1 < extent; ++step) {
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t at = i / stride % extent;
        const std::size_t next = i - at * stride + (at + (forwards ? 1 : extent - 1)) % extent * stride;
        send_.from = send_.via = box_.gpus[i];
        send_.to = box_.gpus[next];
        send_.behind.reset();
        if (step > 0) send_.behind = last_sent_[i];
        if (last_sent_.empty()) {
          sent[i] = graph_.add(send_);
        } else {
          const std::uint32_t waits[] = {last_sent_[i], last_got_[i]};
          sent[i] = graph_.add(send_, waits);
        }
        got[next] = sent[i];
      }
      last_sent_ = sent;
      last_got_ = got;
    }
  }

  SendGraph& graph_;
  const TorusBox& box_;
  double part_;
  ChunkSend send_;
  std::vector<std::size_t> strides_;
  std::vector<std::uint32_t> last_sent_, last_got_;  ///< by position in the box
};

class TorusRing final : public CollectiveAlgorithm {
 public:
  [[nodiscard]] Algorithm id() const override { return Algorithm::torus_ring; }

  [[nodiscard]] bool supports(Collective op, Protocol protocol, const GroupShape& shape,
                              const Transport&) const override {
    const bool rings = op == Collective::all_reduce || op == Collective::all_gather || op == Collective::reduce_scatter;
    return rings && protocol != Protocol::ll128 && !shape.torus.empty();
  }

  [[nodiscard]] Duration latency(Collective op, Protocol protocol, Bytes, const GroupShape& shape,
                                 const Transport& transport) const override {
    double steps = 0;
    for (const TorusLine& line : shape.torus) steps += passes(op) * (line.extent - 1.0);
    const Duration step = protocol == Protocol::ll ? transport.network.ll_step : transport.network.ring_step;
    return timing::launch(shape, transport) + timing::rounded(steps * static_cast<double>(step.ps()));
  }

  [[nodiscard]] std::optional<double> rate_cap(Collective op, Protocol protocol, const GroupShape& shape,
                                               const Transport& transport) const override {
    return timing::protocol_cap(op, protocol, shape, transport);
  }

  [[nodiscard]] std::vector<Usage> usage(Collective op, Protocol, const GroupLayout& layout,
                                         const CollectiveContext& context) const override {
    const std::optional<TorusBox> box = torus_box(context.fabric, layout.members);
    if (!box) return {};
    UsageSum sum(context);
    const std::vector<double> wire = torus_wire(box->lines);
    const double goodput = context.transport.network.efficiency;
    std::size_t stride = 1;
    for (std::size_t d = 0; d < box->lines.size(); ++d) {
      const std::size_t extent = box->lines[d].extent;
      for (std::size_t i = 0; i < box->gpus.size(); ++i) {
        const std::size_t at = i / stride % extent;
        const GpuId next = box->gpus[i - at * stride + (at + 1) % extent * stride];
        sum.route(box->gpus[i], next, 0, passes(op) * wire[d], goodput, goodput);
        sum.route(next, box->gpus[i], 0, passes(op) * wire[d], goodput, goodput);
      }
      stride *= extent;
    }
    return sum.take();
  }

  [[nodiscard]] SendGraph sends(Collective op, Protocol protocol, Bytes size, const GroupLayout& layout,
                                const CollectiveContext& context) const override {
    SendGraph graph;
    const std::optional<TorusBox> box = torus_box(context.fabric, layout.members);
    if (!box) return graph;
    const GroupShape shape = shape_of(context.fabric, layout);
    graph.launch = timing::launch(shape, context.transport);
    const double parts = 2.0 * static_cast<double>(box->lines.size());
    TorusSends call(graph, *box, static_cast<double>(size.count()) / parts, context.transport.network.efficiency,
                    context.transport.network.ring_step);
    for (std::size_t start = 0; start < box->lines.size(); ++start) {
      call.add(op, start, true);
      call.add(op, start, false);
    }
    graph.stretch_latencies(latency(op, protocol, size, shape, context.transport) - graph.launch);
    return graph;
  }
};

}  // namespace

std::unique_ptr<CollectiveAlgorithm> make_torus_ring() { return std::make_unique<TorusRing>(); }

}  // namespace foretrain
