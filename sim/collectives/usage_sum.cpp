// UsageSum: adds up the shares of many routes.
//
// Links that play the same part must come out with the same sums to the last bit, whatever the order of the routes, or
// folding would tell them apart. Few entries are sorted by value before they are added, which makes the order
// irrelevant; very many (all-to-all of hundreds of ranks) are added as they come with compensated sums, and the
// last bits, where order could still show, are rounded away.
#include <algorithm>
#include <cmath>

#include "sim/collectives/collective.h"

namespace foretrain {

namespace {

constexpr std::size_t sorted_at_most = 16384;  ///< entries; about where sorting costs as much as a cell a link
constexpr double kept_bits = 46;               ///< of a compensated sum's 53

/// Neumaier's compensated sum: the error of each addition is kept and added at the end.
class Compensated {
 public:
  void add(double term) {
    const double next = sum_ + term;
    rest_ += std::abs(sum_) >= std::abs(term) ? (sum_ - next) + term : (term - next) + sum_;
    sum_ = next;
  }
  [[nodiscard]] double value() const {
    int exponent = 0;
    const double mantissa = std::frexp(sum_ + rest_, &exponent);
    return std::ldexp(std::nearbyint(std::ldexp(mantissa, static_cast<int>(kept_bits))),
                      exponent - static_cast<int>(kept_bits));
  }

 private:
  double sum_ = 0;
  double rest_ = 0;
};

bool by_link_then_value(const Usage& a, const Usage& b) {
  if (a.link != b.link) return a.link < b.link;
  if (a.wire != b.wire) return a.wire < b.wire;
  return a.load < b.load;
}

}  // namespace

struct UsageSum::Running {
  explicit Running(std::size_t links) : wire(links), load(links) {}
  std::vector<Compensated> wire;
  std::vector<Compensated> load;
};

void UsageSum::RunningDeleter::operator()(Running* running) const { delete running; }

UsageSum::UsageSum(const CollectiveContext& context) : context_(context) {
  const auto tiers = context.fabric.tiers();
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    if (tiers[i].name == "nvlink") nvlink_ = id_at<TierId>(i);
  }
}

void UsageSum::route(GpuId from, GpuId to, std::uint64_t flow, double wire, double in_node_goodput,
                     double between_goodput) {
  if (from == to || wire <= 0) return;
  path_.clear();
  context_.router.route(from, to, flow, path_);
  for (const auto& [link, share] : path_) {
    const bool in_node = nvlink_ && context_.fabric.link(link).tier == *nvlink_;
    add(link, wire * share, in_node ? in_node_goodput : between_goodput);
  }
}

void UsageSum::add(LinkId link, double wire, double goodput) {
  if (wire <= 0) return;
  entries_.push_back({link, wire, wire / std::min(goodput, 1.0)});
  if (entries_.size() >= std::max(sorted_at_most, context_.fabric.link_count() / 16)) spill();
}

void UsageSum::spill() {
  if (!running_) running_.reset(new Running(context_.fabric.link_count()));
  for (const Usage& entry : entries_) {
    running_->wire[entry.link.index()].add(entry.wire);
    running_->load[entry.link.index()].add(entry.load);
  }
  entries_.clear();
}

std::vector<Usage> UsageSum::take() {
  std::vector<Usage> sums;
  if (running_) {
    spill();
    for (std::size_t l = 0; l < running_->wire.size(); ++l) {
      const double wire = running_->wire[l].value();
      if (wire > 0) sums.push_back({id_at<LinkId>(l), wire, running_->load[l].value()});
    }
    running_.reset();
    return sums;
  }
  std::sort(entries_.begin(), entries_.end(), by_link_then_value);
  for (const Usage& entry : entries_) {
    if (sums.empty() || sums.back().link != entry.link) {
      sums.push_back(entry);
    } else {
      sums.back().wire += entry.wire;
      sums.back().load += entry.load;
    }
  }
  entries_.clear();
  return sums;
}

}  // namespace foretrain
