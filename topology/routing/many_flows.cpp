// Several flows a pair, as RDMA queue pairs: every route is divided into equal flows that hash each by itself. Meta
// spreads a collective over 16 flows a pair of GPUs so that ECMP has more to balance with (Llama 3, arXiv 2407.21783,
// section 3.3.1).

#include <limits>

#include "topology/routing/policies.h"

namespace foretrain {
namespace {

class ManyFlows final : public Router {
 public:
  ManyFlows(std::unique_ptr<Router> one, const Fabric& fabric, std::uint32_t flows)
      : one_(std::move(one)), flows_(flows), place_(fabric.link_count(), nowhere) {}

  void route(GpuId from, GpuId to, std::uint64_t flow, std::vector<LinkShare>& path) const override {
    const std::size_t begin = path.size();
    for (std::uint32_t i = 0; i < flows_; ++i) {
      part_.clear();
      one_->route(from, to, flow * flows_per_pair_most + i, part_);
      for (const LinkShare& step : part_) {
        add(step.link, step.share / flows_, path);
      }
    }
    for (std::size_t i = begin; i < path.size(); ++i) {
      place_[path[i].link.index()] = nowhere;
    }
  }

 private:
  static constexpr std::size_t nowhere = std::numeric_limits<std::size_t>::max();

  void add(LinkId link, double share, std::vector<LinkShare>& path) const {
    std::size_t& place = place_[link.index()];
    if (place == nowhere) {
      place = path.size();
      path.push_back({link, share});
    } else {
      path[place].share += share;
    }
  }

  std::unique_ptr<Router> one_;
  std::uint32_t flows_;
  mutable std::vector<LinkShare> part_;
  mutable std::vector<std::size_t> place_;  ///< by link: where it stands in the path; nowhere between calls
};

}  // namespace

std::unique_ptr<Router> make_many_flows(std::unique_ptr<Router> one, const Fabric& fabric, std::uint32_t flows) {
  return std::make_unique<ManyFlows>(std::move(one), fabric, flows);
}

}  // namespace foretrain
