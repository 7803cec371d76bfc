// NVLS with SHARP: an all-reduce over several nodes, reduced inside each in the NVSwitch and between them in the
// switches of the network. NCCL calls it NVLS; it needs CollNet over several nodes.
#include "sim/collectives/algorithms.h"
#include "sim/collectives/in_network.h"
#include "sim/collectives/nvls.h"
#include "sim/collectives/timing.h"

namespace foretrain {

namespace {

class NvlsSharp final : public CollectiveAlgorithm {
 public:
  [[nodiscard]] Algorithm id() const override { return Algorithm::nvls_sharp; }

  [[nodiscard]] bool supports(Collective op, Protocol protocol, const GroupShape& shape,
                              const Transport& transport) const override {
    return op == Collective::all_reduce && protocol == Protocol::simple && shape.nodes > 1 &&
           transport.network.in_network_reduction && timing::has_nvls(shape, transport);
  }

  [[nodiscard]] Duration latency(Collective, Protocol, Bytes size, const GroupShape& shape,
                                 const Transport& transport) const override {
    return timing::launch(shape, transport) + in_network_latency(transport) + timing::nvls_fill(size, shape, transport);
  }

  [[nodiscard]] std::optional<double> rate_cap(Collective, Protocol, const GroupShape&,
                                               const Transport&) const override {
    return std::nullopt;
  }

  [[nodiscard]] std::vector<Usage> usage(Collective, Protocol, const GroupLayout& layout,
                                         const CollectiveContext& context) const override {
    if (layout.nodes.size() <= 1) return {};
    UsageSum sum(context);
    const GroupShape shape = shape_of(context.fabric, layout);
    add_nvls(sum, layout, timing::nvls_wire(shape), timing::nvls_goodput(shape, context.transport));
    add_in_network(sum, layout, context);
    return sum.take();
  }
};

}  // namespace

std::unique_ptr<CollectiveAlgorithm> make_nvls_sharp() { return std::make_unique<NvlsSharp>(); }

}  // namespace foretrain
