#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options/value_semantic.hpp>
#include <cctype>
#include <cmath>
#include <optional>
#include <ostream>
#include <vector>

#include "scenarios/problems.h"
#include "scenarios/scenario.h"
#include "sim/simulate.h"
#include "tools/cli/cluster_choice.h"
#include "tools/cli/named.h"
#include "tools/cli/options.h"
#include "tools/cli/output_file.h"
#include "tools/cli/size.h"
#include "tools/commands/command.h"
#include "tools/commands/measure_collective.h"
#include "tools/output/collective_table.h"

namespace foretrain {
namespace {

// A table longer than this helps nobody.
constexpr std::size_t rows_max = 100'000;

Syntax collective_syntax() {
  Syntax syntax("collective", "collective --cluster CLUSTER --gpus N [options]",
                "the table that nccl-tests would print: one call on an idle network, or all groups of a job at once");
  const auto text = [](const char* name) { return po::value<std::string>()->value_name(name); };
  const std::string ops = "default all_reduce: " + names_of(all_collectives);
  const std::string algorithms = "force an algorithm, as NCCL_ALGO does: " + names_of(all_algorithms);
  const std::string protocols = "force a protocol, as NCCL_PROTO does: " + names_of(all_protocols);
  const std::string routings = "routing (default spread): " + names_of(all_routings);
  syntax.options.add_options()("cluster", text("NAME"), "cluster of the catalogue, or a file (required)")(
      "gpus", po::value<std::int64_t>()->value_name("N"),
      "ranks of the collective, one a GPU; the first N GPUs unless laid out otherwise (required)")(
      "ranks-per-node", po::value<std::int64_t>()->value_name("N"),
      "ranks on each node (default: as many as it has GPUs)")(
      "group-stride", po::value<std::int64_t>()->value_name("N"),
      "every N-th GPU (default 1): 8 for the data-parallel rings of a job with TP 8")(
      "concurrent", "all groups of that shape on the same nodes at once; shows how much slower than one by itself")(
      "op", text("NAME"), ops.c_str())(
      "imbalance", po::value<double>()->value_name("X"),
      "all_to_allv and back: the first rank gets X times the mean, the others alike (default 1)")(
      "copies-per-node", po::value<double>()->value_name("X"),
      "all_to_allv and back with two_hop: copies that go to a node as one, on the mean (default 1)")(
      "begin,b", text("SIZE"), "smallest message (default 8; bytes, or 1K, 64M, 1G, 64MiB)")(
      "end,e", text("SIZE"), "largest message (default 1G)")("factor,f", po::value<double>()->value_name("X"),
                                                             "each message X times the one before (default 2)")(
      "step,i", text("SIZE"), "each message SIZE larger than the one before, instead of -f")(
      "algo", text("NAME"), algorithms.c_str())("proto", text("NAME"), protocols.c_str())("routing", text("NAME"),
                                                                                          routings.c_str())(
      "json", text("FILE"), "write the table as JSON; - is standard output, and then nothing else is");
  add_shape_option(syntax);
  syntax.examples = {"collective --cluster dgx-h100-ndr --gpus 64 --op all_reduce -b 8 -e 1G -f 2",
                     "collective --cluster h100-roce-clos --gpus 32 --group-stride 8 --concurrent --op reduce_scatter "
                     "-b 1M -e 1G --algo ring --json -"};
  return syntax;
}

Bytes size_of(const Syntax& syntax, const po::variables_map& values, const char* option, Bytes otherwise) {
  if (values.count(option) == 0) return otherwise;
  const Parsed<Bytes> parsed = parse_size(values[option].as<std::string>());
  if (!parsed.value) throw syntax.error(fmt::format("--{}: {}", option, parsed.error));
  return *parsed.value;
}

/// As nccl-tests: from -b to -e by factor or by step, both ends included.
std::vector<Bytes> sizes_of(const Syntax& syntax, const po::variables_map& values) {
  const Bytes begin = size_of(syntax, values, "begin", bytes(8));
  const Bytes end = size_of(syntax, values, "end", gibibytes(1));
  const bool by_step = values.count("step") > 0;
  const bool by_factor = values.count("factor") > 0;
  const Bytes step = size_of(syntax, values, "step", bytes(1));
  const double factor = by_factor ? values["factor"].as<double>() : 2;
  if (by_step && by_factor) throw syntax.error("-f and -i exclude each other; give one");
  if (!(factor > 1) || !std::isfinite(factor)) throw syntax.error(fmt::format("-f {}: has to be above 1", factor));
  if (begin > end) throw syntax.error(fmt::format("-b {} is above -e {}", begin.count(), end.count()));
  std::vector<Bytes> sizes;
  for (Bytes size = begin; size <= end;) {
    if (sizes.size() == rows_max) throw syntax.error(fmt::format("more than {} sizes; take larger steps", rows_max));
    sizes.push_back(size);
    size = by_step ? size + step : std::max(size + bytes(1), bytes_rounded(static_cast<double>(size.count()) * factor));
  }
  return sizes;
}

/// What differs from the mean in an all-to-all(v).
Exchange exchange_of(const Syntax& syntax, const po::variables_map& values, Collective op) {
  const auto number = [&](const char* option) { return values.count(option) > 0 ? values[option].as<double>() : 1; };
  for (const char* option : {"imbalance", "copies-per-node"}) {
    if (values.count(option) > 0 && op != Collective::all_to_allv && op != Collective::all_to_allv_back) {
      throw syntax.error(fmt::format("--{}: only of all_to_allv and all_to_allv_back, not of {}", option, to_text(op)));
    }
  }
  const auto ranks = static_cast<double>(values["gpus"].as<std::int64_t>());
  const double imbalance = number("imbalance");
  if (!(imbalance >= 1 && imbalance <= ranks)) {
    throw syntax.error(fmt::format("--imbalance {}: allowed: 1 to the number of ranks, {}", imbalance, ranks));
  }
  constexpr double copies_max = 1024;
  const double copies = number("copies-per-node");
  if (!(copies >= 1 && copies <= copies_max)) {
    throw syntax.error(fmt::format("--copies-per-node {}: allowed: 1 to {}", copies, copies_max));
  }
  Exchange exchange = one_in_demand(static_cast<std::size_t>(ranks), imbalance);
  exchange.copies_per_node = as_share(copies);
  return exchange;
}

GroupSpec group_of(const Syntax& syntax, const po::variables_map& values, Collective op) {
  const std::int64_t gpus = values["gpus"].as<std::int64_t>();
  if (op == Collective::send_recv && gpus != 2) {
    throw syntax.error(fmt::format("--gpus {}: send_recv is between 2 GPUs", gpus));
  }
  if (gpus == 1) throw syntax.error("--gpus 1: a collective needs at least 2 GPUs");
  GroupSpec spec{.ranks = gpus, .ranks_per_node = {}, .stride = 1, .concurrent = values.count("concurrent") > 0};
  if (values.count("ranks-per-node") > 0) spec.ranks_per_node = values["ranks-per-node"].as<std::int64_t>();
  if (values.count("group-stride") > 0) spec.stride = values["group-stride"].as<std::int64_t>();
  return spec;
}

}  // namespace

int show_collective(std::span<const std::string> args, const Console& console) {
  const Syntax syntax = collective_syntax();
  const auto values = syntax.parse(args, console.out);
  if (!values) return 0;
  for (const char* required : {"cluster", "gpus"}) {
    if (values->count(required) == 0) throw syntax.error(fmt::format("--{} is missing", required));
  }
  const Collective op = named(syntax, *values, "op", all_collectives).value_or(Collective::all_reduce);
  const GroupSpec spec = group_of(syntax, *values, op);
  Measurement wanted{.op = op,
                     .sizes = sizes_of(syntax, *values),
                     .forced = {.algorithm = named(syntax, *values, "algo", all_algorithms),
                                .protocol = named(syntax, *values, "proto", all_protocols)},
                     .routing = named(syntax, *values, "routing", all_routings).value_or(Network{}.routing)};
  const std::string json = values->count("json") > 0 ? (*values)["json"].as<std::string>() : std::string();
  if (!json.empty() && json != "-") check_writable(json);
  const ClusterChoice choice = choose_cluster(syntax, *values, spec.ranks);
  wanted.exchange = exchange_of(syntax, *values, op);
  const Groups where = lay_out(syntax, spec, choice.cluster);
  const CollectiveTable table = measure(syntax, choice.cluster, where, wanted);
  if (!json.empty()) write_text(json, to_json(table), console.out);
  if (json != "-") console.out << to_text(table);
  return 0;
}

}  // namespace foretrain
