// NVLSTree: an all-reduce over several nodes, inside each in the NVSwitch, between them on a double binary tree.
#include "sim/collectives/algorithms.h"
#include "sim/collectives/double_tree.h"
#include "sim/collectives/nvls.h"
#include "sim/collectives/timing.h"

namespace foretrain {

namespace {

class NvlsTree final : public CollectiveAlgorithm {
 public:
  [[nodiscard]] Algorithm id() const override { return Algorithm::nvls_tree; }

  [[nodiscard]] bool supports(Collective op, Protocol protocol, const GroupShape& shape,
                              const Transport& transport) const override {
    return op == Collective::all_reduce && protocol == Protocol::simple && shape.nodes > 1 &&
           transport.network.tree_allowed && timing::has_nvls(shape, transport);
  }

  [[nodiscard]] Duration latency(Collective, Protocol, Bytes size, const GroupShape& shape,
                                 const Transport& transport) const override {
    return timing::launch(shape, transport) +
           timing::rounded(timing::tree_hops(shape) * static_cast<double>(transport.network.tree_step.ps())) +
           timing::nvls_fill(size, shape, transport);
  }

  [[nodiscard]] std::optional<double> rate_cap(Collective, Protocol, const GroupShape&,
                                               const Transport&) const override {
    return std::nullopt;
  }

  [[nodiscard]] std::vector<Usage> usage(Collective, Protocol, const GroupLayout& layout,
                                         const CollectiveContext& context) const override {
    UsageSum sum(context);
    const GroupShape shape = shape_of(context.fabric, layout);
    add_nvls(sum, layout, timing::nvls_wire(shape), timing::nvls_goodput(shape, context.transport));
    add_double_tree(sum, layout, context.transport.network.efficiency);
    return sum.take();
  }
};

}  // namespace

std::unique_ptr<CollectiveAlgorithm> make_nvls_tree() { return std::make_unique<NvlsTree>(); }

}  // namespace foretrain
