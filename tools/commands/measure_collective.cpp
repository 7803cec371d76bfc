#include "tools/commands/measure_collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "scenarios/sections.h"
#include "tools/output/human.h"

namespace foretrain {
namespace {

/// One group of a node's GPUs: `each` of them, every `stride`-th from `first` on, in each of `nodes` nodes.
std::vector<GpuId> across_nodes(std::int64_t nodes, std::int64_t node_gpus, std::int64_t each, std::int64_t stride,
                                std::int64_t first) {
  std::vector<GpuId> group;
  for (std::int64_t n = 0; n < nodes; ++n) {
    for (std::int64_t i = 0; i < each; ++i) {
      group.push_back(id_at<GpuId>(static_cast<std::size_t>(n * node_gpus + first + i * stride)));
    }
  }
  return group;
}

Groups by_node(const Syntax& syntax, const GroupSpec& spec, std::int64_t node_gpus) {
  const std::int64_t each = *spec.ranks_per_node;
  if (each < 1 || each > node_gpus) {
    throw syntax.error(fmt::format("--ranks-per-node {}: a node has {} GPUs", each, node_gpus));
  }
  if (spec.ranks % each != 0) {
    throw syntax.error(fmt::format("--gpus {}: no multiple of --ranks-per-node {}", spec.ranks, each));
  }
  if (each * spec.stride > node_gpus) {
    throw syntax.error(
        fmt::format("--ranks-per-node {} at --group-stride {}: a node has {} GPUs", each, spec.stride, node_gpus));
  }
  const std::int64_t nodes = spec.ranks / each;
  Groups where{.gpus = nodes * node_gpus, .groups = {}};
  const std::int64_t block = each * spec.stride;
  const std::int64_t count = spec.concurrent ? node_gpus / block * spec.stride : 1;
  for (std::int64_t g = 0; g < count; ++g) {
    const std::int64_t first = g / spec.stride * block + g % spec.stride;
    where.groups.push_back(across_nodes(nodes, node_gpus, each, spec.stride, first));
  }
  return where;
}

Groups by_stride(const GroupSpec& spec, std::int64_t node_gpus) {
  const std::int64_t block = spec.ranks * spec.stride;
  const bool plain = spec.stride == 1 && !spec.concurrent;  // less than a node is a smaller node
  const std::int64_t nodes = (block + node_gpus - 1) / node_gpus;
  Groups where{.gpus = plain ? spec.ranks : nodes * node_gpus, .groups = {}};
  const std::int64_t count = spec.concurrent ? nodes * node_gpus / block * spec.stride : 1;
  for (std::int64_t g = 0; g < count; ++g) {
    const std::int64_t first = g / spec.stride * block + g % spec.stride;
    where.groups.push_back(across_nodes(1, 0, spec.ranks, spec.stride, first));
  }
  return where;
}

/// Every group makes one call of that size, all at once.
Job one_call_each(const std::vector<std::vector<GpuId>>& groups, const Measurement& wanted, Bytes size) {
  Job job;
  job.activities = {"compute"};
  job.dimensions = {{.name = "group"}};
  ProgramBuilder program;
  program.communicate(main_stream, {.label = "call", .op = wanted.op, .size = size, .slot = 0});
  job.programs.push_back(std::move(program).build());
  job.exchanges = {wanted.exchange};
  for (const std::vector<GpuId>& group : groups) {
    const auto id = id_at<CommunicatorId>(job.communicators.size());
    Communicator& communicator = job.communicators.emplace_back();
    communicator.exchange = 0;
    for (const GpuId gpu : group) {
      communicator.members.push_back(id_at<RankId>(job.ranks.size()));
      job.ranks.push_back({0, {id}});
      job.placement.push_back(gpu);
    }
  }
  return job;
}

/// The link that was full for longest; the first at a tie, none if no link ever was.
std::optional<LinkId> fullest(const Measured& measured) {
  std::optional<LinkId> found;
  Duration longest;
  for (std::size_t l = 0; l < measured.links.size(); ++l) {
    if (measured.links[l].saturated <= longest) continue;
    longest = measured.links[l].saturated;
    found = id_at<LinkId>(l);
  }
  return found;
}

CollectiveRow::Together play_together(const Fabric& fabric, const Cluster& cluster, const Groups& where,
                                      const Measurement& wanted, const IdleCall& alone, Bytes size) {
  const Measured measured = simulate(fabric, cluster.transport, one_call_each(where.groups, wanted, size),
                                     {.routing = wanted.routing, .seed = Network{}.seed, .forced = wanted.forced});
  const CommunicationRow& calls = measured.communication.front();
  CollectiveRow::Together together{.time = measured.step,
                                   .slowdown = calls.idle_time > TotalTime() ? calls.time / calls.idle_time : 1,
                                   .limit = "latency",
                                   .link = {}};
  if (measured.step < 2 * alone.latency) return together;  // as idle_call: moving the bytes took less
  together.limit = "protocol";
  if (const std::optional<LinkId> link = fullest(measured)) {
    together.limit = fabric.tiers()[fabric.link(*link).tier.index()].name;
    together.link = fabric.name(*link);
  }
  return together;
}

}  // namespace

Groups lay_out(const Syntax& syntax, const GroupSpec& spec, const Cluster& cluster) {
  if (spec.stride < 1) throw syntax.error(fmt::format("--group-stride {}: has to be 1 or more", spec.stride));
  const std::int64_t node_gpus = gpus_per_node(cluster.fabric);
  if (spec.stride > cluster.max_gpus) {
    throw syntax.error(fmt::format("--group-stride {}: the cluster has {} GPUs", spec.stride, cluster.max_gpus));
  }
  Groups where = spec.ranks_per_node ? by_node(syntax, spec, node_gpus) : by_stride(spec, node_gpus);
  if (where.gpus > cluster.max_gpus) {
    throw syntax.error(fmt::format("a group of {} ranks in that layout spans {} GPUs; '{}' can have {}", spec.ranks,
                                   grouped(where.gpus), cluster.name, grouped(cluster.max_gpus)));
  }
  return where;
}

CollectiveTable measure(const Syntax& syntax, const Cluster& cluster, const Groups& where, const Measurement& wanted) {
  const Fabric fabric = fabric_of(syntax, {cluster, where.gpus});
  const auto router = make_router(wanted.routing, fabric, Network{}.seed);
  const std::vector<GpuId>& group = where.groups.front();
  const bool one_node = fabric.node_of(group.front()) == fabric.node_of(group.back());
  const Transport& transport = cluster.transport;
  CollectiveTable table{
      .cluster = cluster.name,
      .ranks = static_cast<std::int64_t>(group.size()),
      .rows = {},
      .groups = static_cast<std::int64_t>(where.groups.size()),
      .measured = one_node ? transport.node.measured : std::min(transport.node.measured, transport.network.measured)};
  for (const Bytes size : wanted.sizes) {
    try {
      CollectiveRow row{
          .op = wanted.op,
          .size = size,
          .call = idle_call(fabric, transport, *router, wanted.op, size, group, wanted.forced, wanted.exchange)};
      if (row.call.link) row.link = fabric.name(*row.call.link);
      if (where.groups.size() > 1) row.together = play_together(fabric, cluster, where, wanted, row.call, size);
      table.rows.push_back(std::move(row));
    } catch (const std::invalid_argument& e) {  // nothing runs this call on this group
      throw syntax.error(e.what());
    }
  }
  return table;
}

}  // namespace foretrain
