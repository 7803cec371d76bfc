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
};

}  // namespace

std::unique_ptr<CollectiveAlgorithm> make_torus_ring() { return std::make_unique<TorusRing>(); }

}  // namespace foretrain
