#include "tests/bench/network_cases.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "sim/event_queue.h"
#include "topology/builders/builders.h"
#include "topology/routing/router.h"

namespace foretrain::bench {
namespace {

void add_flow(Traffic& traffic, const Router& router, std::uint32_t from, std::uint32_t to, double bytes) {
  std::vector<LinkShare> path;
  router.route(GpuId{from}, GpuId{to}, 0, path);
  for (const LinkShare& s : path) traffic.links.loads.push_back({s.link, s.share});
  traffic.links.end_shape();
  traffic.bytes.push_back(bytes);
}

/// Plays what the network schedules until nothing moves; `ended(flow, now)` may start more.
template <class Ended>
std::uint64_t drain(FluidNetwork& network, Ended ended) {
  using Finish = FluidNetwork::Finish;
  EventQueue<Finish> queue([&](const Finish& f) { return !network.current(f.flow, f.generation); });
  std::uint64_t flows = 0;
  const auto schedule = [&](Time now) {
    queue.push_all(Phase::end, network.resolve(now), [](const Finish& f) { return std::pair{f.at, f}; });
  };
  schedule(Time());
  while (!queue.empty()) {
    const Time now = queue.next_time();
    bool any = false;
    while (!queue.empty() && queue.next_time() == now) {
      const Finish f = queue.pop();
      if (!network.current(f.flow, f.generation)) continue;
      network.finish(f.flow, now);
      ended(f.flow, now);
      ++flows;
      any = true;
    }
    if (any) schedule(now);
  }
  return flows;
}

}  // namespace

Fabric fat_tree(std::uint32_t hosts) {
  FatTreeSpec spec;
  spec.node = {.gpus = 1, .nics = 1};
  spec.gpus = hosts;
  for (spec.radix = 4; fat_tree_capacity(spec) < hosts;) spec.radix += 2;
  return build_fat_tree(spec);
}

Traffic permutation(const Fabric& fabric, double bytes, std::uint64_t seed) {
  const auto router = make_router(Routing::ecmp, fabric, seed);
  std::vector<std::uint32_t> order(fabric.gpu_count());
  std::iota(order.begin(), order.end(), 0U);
  std::mt19937_64 random(seed);
  for (std::size_t i = order.size(); i-- > 1;) std::swap(order[i], order[random() % (i + 1)]);
  Traffic traffic;
  for (std::size_t i = 0; i < order.size(); ++i)
    add_flow(traffic, *router, order[i], order[(i + 1) % order.size()], bytes);
  return traffic;
}

Traffic all_to_all(const Fabric& fabric, double bytes, double spread, std::uint64_t seed) {
  const auto router = make_router(Routing::ecmp, fabric, seed);
  std::mt19937_64 random(seed);
  const auto hosts = static_cast<std::uint32_t>(fabric.gpu_count());
  const std::size_t flows = std::size_t{hosts} * (hosts - 1);
  Traffic traffic;
  traffic.links.begin.reserve(flows + 1);
  traffic.links.loads.reserve(flows * 8);  // the longest path: up three tiers and down, with both PCIe links
  traffic.bytes.reserve(flows);
  for (std::uint32_t from = 0; from < hosts; ++from)
    for (std::uint32_t to = 0; to < hosts; ++to) {
      if (from == to) continue;
      const double u = static_cast<double>(random() >> 11) * 0x1p-53;  // [0, 1)
      add_flow(traffic, *router, from, to, std::ceil(bytes * std::pow(spread, 2 * u - 1)));
    }
  return traffic;
}

std::unique_ptr<FluidNetwork> network_of(const Fabric& fabric, Traffic& traffic) {
  const std::vector<double> caps(traffic.links.shapes(), uncapped);
  ResourceTable table = reduce_links(fabric, traffic.links, caps);
  traffic.links = {};
  auto network = std::make_unique<FluidNetwork>(std::move(table.capacity));
  network->reserve(table.shapes(), table.loads.size());
  for (std::size_t s = 0; s < table.shapes(); ++s) network->add_sorted_shape(table.of(s), uncapped, 1);
  return network;
}

Outcome play_at_once(FluidNetwork& network, const std::vector<double>& bytes) {
  Outcome out;
  out.finish.resize(bytes.size());
  for (std::size_t f = 0; f < bytes.size(); ++f) network.start(id_at<ShapeId>(f), bytes[f], Time());
  out.flows = drain(network, [&](FlowId flow, Time now) { out.finish[flow.index()] = now; });  // ids count from 0
  return out;
}

Outcome play_ring(FluidNetwork& network, const std::vector<double>& bytes, std::uint32_t steps) {
  const std::size_t n = bytes.size();
  Outcome out;
  out.finish.resize(n);
  std::vector<std::uint32_t> sent(n, 0);
  std::vector<std::uint32_t> begun(n, 0);
  std::vector<std::uint32_t> host_of_flow;
  const auto start = [&](std::size_t host, Time now) {
    const std::size_t before = (host + n - 1) % n;
    if (begun[host] == steps || sent[host] < begun[host] || sent[before] < begun[host]) return;
    ++begun[host];
    const FlowId flow = network.start(id_at<ShapeId>(host), bytes[host], now);
    host_of_flow.resize(std::max(host_of_flow.size(), flow.index() + 1));
    host_of_flow[flow.index()] = static_cast<std::uint32_t>(host);
  };
  for (std::size_t host = 0; host < n; ++host) start(host, Time());
  out.flows = drain(network, [&](FlowId flow, Time now) {
    const std::size_t host = host_of_flow[flow.index()];
    ++sent[host];
    out.finish[host] = now;
    start(host, now);
    start((host + 1) % n, now);
  });
  return out;
}

}  // namespace foretrain::bench
