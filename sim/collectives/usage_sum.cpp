// UsageSum: adds up the shares of many routes.
//
// Links that play the same part must come out with the same sums to the last bit, whatever the order of the routes, or
// folding would tell them apart. Few entries are sorted by value before they are added, which makes the order
// irrelevant; very many (all-to-all of hundreds of ranks) are added as whole numbers, a cell a link, which does so too.
#include <algorithm>
#include <cmath>

#include "sim/collectives/collective.h"

namespace foretrain {

void stretch(std::vector<Usage>& usage, double times) {
  for (Usage& u : usage) u.load = std::max(u.wire, u.load * times);
}

namespace {

constexpr std::size_t sorted_at_most = 16384;  ///< entries; about where sorting costs as much as a cell a link
constexpr int kept_bits = 46;                  ///< of a sum: shares such as 1/3 are rounded before they are added

__extension__ typedef __int128 Fixed;  ///< in units of 2^-80: 10^6 routes err by less than 2^-60
constexpr int fixed_bits = 80;

Fixed to_fixed(double value) { return static_cast<Fixed>(value * std::ldexp(1.0, fixed_bits)); }

double from_fixed(Fixed sum) {
  int exponent = 0;
  const double mantissa = std::frexp(static_cast<double>(sum), &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, kept_bits)), exponent - kept_bits - fixed_bits);
}

bool by_value(const Usage& a, const Usage& b) { return a.wire != b.wire ? a.wire < b.wire : a.load < b.load; }

/// Sorts by link, and entries of one link by value: first numbers, which is quick, then the few that share a link.
std::vector<Usage> sorted(const std::vector<Usage>& entries) {
  std::vector<std::uint64_t> keys;
  keys.reserve(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) keys.push_back(std::uint64_t{entries[i].link.value} << 32 | i);
  std::sort(keys.begin(), keys.end());
  std::vector<Usage> result;
  result.reserve(entries.size());
  for (const std::uint64_t key : keys) result.push_back(entries[static_cast<std::uint32_t>(key)]);
  for (auto at = result.begin(); at != result.end();) {
    const LinkId link = at->link;
    const auto end = std::find_if(at + 1, result.end(), [link](const Usage& u) { return u.link != link; });
    if (end - at > 1) std::sort(at, end, by_value);
    at = end;
  }
  return result;
}

}  // namespace

struct UsageSum::Running {
  struct Cell {
    Fixed wire = 0;
    Fixed load = 0;
  };
  /// What one hop adds. Most hops of an all-to-all add the same, so the last is kept.
  struct Term {
    double wire = 0;
    double goodput = 1;
    Cell cell;
  };

  explicit Running(std::size_t links) : cells(links) {}

  void add(Term& term, LinkId link, double wire, double goodput) {
    if (wire != term.wire || goodput != term.goodput) {
      term = {wire, goodput, {to_fixed(wire), to_fixed(wire / std::min(goodput, 1.0))}};
    }
    Cell& cell = cells[link.index()];
    cell.wire += term.cell.wire;
    cell.load += term.cell.load;
  }

  std::vector<Cell> cells;
  Term in_node;
  Term between;
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
  route_most_ = std::max(route_most_, wire);
  path_.clear();
  context_.router.route(from, to, flow, path_);
  for (const auto& [link, share] : path_) {
    const bool in_node = nvlink_ && context_.fabric.link(link).tier == *nvlink_;
    if (running_) {
      running_->add(in_node ? running_->in_node : running_->between, link, wire * share,
                    in_node ? in_node_goodput : between_goodput);
    } else {
      add(link, wire * share, in_node ? in_node_goodput : between_goodput);
    }
  }
}

void UsageSum::add(LinkId link, double wire, double goodput) {
  if (wire <= 0) return;
  if (running_) return running_->add(running_->between, link, wire, goodput);
  entries_.push_back({link, wire, wire / std::min(goodput, 1.0)});
  if (entries_.size() >= std::max(sorted_at_most, context_.fabric.link_count() / 16)) spill();
}

void UsageSum::spill() {
  running_.reset(new Running(context_.fabric.link_count()));
  for (const Usage& entry : entries_) {
    Running::Cell& cell = running_->cells[entry.link.index()];
    cell.wire += to_fixed(entry.wire);
    cell.load += to_fixed(entry.load);
  }
  entries_.clear();
}

std::vector<Usage> UsageSum::take() {
  std::vector<Usage> sums;
  if (running_) {
    for (std::size_t l = 0; l < running_->cells.size(); ++l) {
      const Running::Cell& cell = running_->cells[l];
      if (cell.wire > 0) sums.push_back({id_at<LinkId>(l), from_fixed(cell.wire), from_fixed(cell.load)});
    }
    running_.reset();
    count_flows(sums);
    return sums;
  }
  for (const Usage& entry : sorted(entries_)) {
    if (sums.empty() || sums.back().link != entry.link) {
      sums.push_back(entry);
    } else {
      sums.back().wire += entry.wire;
      sums.back().load += entry.load;
    }
  }
  entries_.clear();
  count_flows(sums);
  return sums;
}

/// A flow is a route of the largest size: eight pairs of an all-to-all on a link are eight, the eighth part of one is
/// an eighth.
void UsageSum::count_flows(std::vector<Usage>& sums) {
  if (route_most_ > 0)
    for (Usage& sum : sums) sum.flows = sum.wire / route_most_;
  route_most_ = 0;
}

}  // namespace foretrain
