#include "sim/send_plan.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include <fmt/format.h>

namespace foretrain {
namespace {

/// Wire bytes of each line, at the index of its first send; and by send, that index.
struct Lines {
  std::vector<std::uint32_t> head;
  std::vector<double> wire;
};

Lines lines_of(const SendGraph& graph) {
  Lines lines{std::vector<std::uint32_t>(graph.size()), std::vector<double>(graph.size())};
  for (std::size_t i = 0; i < graph.size(); ++i) {
    lines.head[i] = graph[i].behind ? lines.head[*graph[i].behind] : static_cast<std::uint32_t>(i);
    lines.wire[lines.head[i]] += graph[i].wire;
  }
  return lines;
}

/// The reverse of "waits for", by send.
void index_wakes(const SendGraph& graph, SendPlan& plan) {
  std::vector<std::uint32_t> count(graph.size() + 1);
  for (std::size_t i = 0; i < graph.size(); ++i)
    for (const std::uint32_t a : graph.after(i)) ++count[a];
  std::uint32_t begin = 0;
  for (std::size_t i = 0; i < graph.size(); ++i) {
    plan.sends[i].wakes_begin = plan.sends[i].wakes_end = begin;
    begin += count[i];
  }
  plan.wakes.resize(begin);
  for (std::size_t i = 0; i < graph.size(); ++i)
    for (const std::uint32_t a : graph.after(i)) plan.wakes[plan.sends[a].wakes_end++] = static_cast<std::uint32_t>(i);
}

}  // namespace

SendPlanner::SendPlanner(const Fabric& fabric, const Router& router) : fabric_(fabric), router_(router) {
  const auto tiers = fabric.tiers();
  for (std::size_t i = 0; i < tiers.size(); ++i)
    if (tiers[i].name == "nvlink") nvlink_ = id_at<TierId>(i);
}

SendPlan SendPlanner::plan(const SendGraph& graph, double message, std::optional<double> rate_cap) {
  SendPlan plan{.launch = graph.launch, .sends = {}, .wakes = {}};
  plan.sends.resize(graph.size());
  const Lines lines = lines_of(graph);
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const ChunkSend& from = graph[i];
    SendPlan::Send& send = plan.sends[i];
    send.wire = from.from == from.to ? 0 : from.wire;
    send.latency = from.latency.ps();
    send.waits = static_cast<std::uint32_t>(graph.after(i).size());
    if (from.behind) {
      send.is_behind = true;
      plan.sends[*from.behind].next = static_cast<std::uint32_t>(i);
    }
    if (send.wire <= 0) continue;
    const ChunkSend& head = graph[lines.head[i]];
    if (lines.head[i] != i) {
      send.shape = plan.sends[lines.head[i]].shape;
      continue;
    }
    const double turn = head.cap_wire > 0 ? head.cap_wire : lines.wire[i];
    const double cap = rate_cap ? *rate_cap * turn / message : uncapped;
    const Way way{head.from, head.via, head.to, head.flow, head.in_node_goodput, head.between_goodput, cap};
    if (head.over) {
      const std::span<const LinkShare> over = graph.way(*head.over);
      path_.assign(over.begin(), over.end());
      send.shape = collect_path(way);
    } else {
      send.shape = shape_of_way(way);
    }
  }
  index_wakes(graph, plan);
  return plan;
}

ShapeId SendPlanner::shape_of_way(const Way& way) {
  const auto [at, fresh] = known_.try_emplace(way, id_at<ShapeId>(caps_.size()));
  if (!fresh) return at->second;
  path_.clear();
  if (way.via != way.from) router_.route(way.from, way.via, 0, path_);
  router_.route(way.via, way.to, way.flow, path_);
  return collect_path(way);
}

ShapeId SendPlanner::collect_path(const Way& way) {
  std::sort(path_.begin(), path_.end(), [](const LinkShare& a, const LinkShare& b) {
    return a.link != b.link ? a.link < b.link : a.share < b.share;
  });
  if (loads_.loads.size() + path_.size() > entries_max) {
    throw std::invalid_argument(fmt::format(
        "fidelity flows: the routes of {} kinds of sends cross more than {} links; ecmp routing crosses fewer, "
        "fidelity fluid adds them up",
        caps_.size(), entries_max));
  }
  for (std::size_t i = 0; i < path_.size();) {
    double share = 0;
    const LinkId link = path_[i].link;
    for (; i < path_.size() && path_[i].link == link; ++i) share += path_[i].share;
    const bool in_node = nvlink_ && fabric_.link(link).tier == *nvlink_;
    loads_.loads.push_back({link, share / std::min(in_node ? way.in_node_goodput : way.between_goodput, 1.0)});
  }
  loads_.end_shape();
  caps_.push_back(way.cap);
  goodputs_.push_back({way.in_node_goodput, way.between_goodput});
  return id_at<ShapeId>(caps_.size() - 1);
}

/// Of one flow, as Expansion's shapes have it: a fair share of the wire on its busiest link.
double SendPlanner::weight(std::size_t shape) const {
  double most = 0;
  for (const LinkLoad& e : loads_.of(shape)) most = std::max(most, e.load);
  return 1 / most;
}

LinkTable SendPlanner::take_wire() && {
  for (std::size_t s = 0; s < loads_.shapes(); ++s)
    for (std::size_t i = loads_.begin[s]; i < loads_.begin[s + 1]; ++i) {
      LinkLoad& e = loads_.loads[i];
      const bool in_node = nvlink_ && fabric_.link(e.link).tier == *nvlink_;
      e.load *= std::min(in_node ? goodputs_[s].in_node : goodputs_[s].between, 1.0);
    }
  return std::move(loads_);
}

std::size_t SendPlanner::WayHash::operator()(const Way& way) const {
  // Fibonacci hashing, word by word.
  std::uint64_t h = 0;
  const auto mix = [&h](std::uint64_t word) {
    h = (h ^ word) * 0x9e3779b97f4a7c15ULL;
    h ^= h >> 29;
  };
  mix(way.from.value | std::uint64_t{way.to.value} << 32);
  mix(way.via.value | std::uint64_t{way.flow} << 32);
  mix(std::bit_cast<std::uint64_t>(way.in_node_goodput));
  mix(std::bit_cast<std::uint64_t>(way.between_goodput));
  mix(std::bit_cast<std::uint64_t>(way.cap));
  return h;
}

}  // namespace foretrain
