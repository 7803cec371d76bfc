// The rules of a plan. Each small function looks at one subject and adds what it finds; none stops at the first.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <numeric>

#include "workloads/plan.h"
#include "workloads/schedules/schedule.h"

namespace foretrain {
namespace {

using Errors = std::vector<PlanError>;
using Values = std::vector<std::int64_t>;

void add(Errors& errors, std::vector<std::string> keys, std::string message) {
  errors.push_back({std::move(keys), std::move(message)});
}

/// The values of `allowed` (ascending, not empty) closest to `wanted`: one, or two at the same distance.
Values nearest(const Values& allowed, std::int64_t wanted) {
  assert(!allowed.empty());
  const auto distance = [&](std::int64_t v) { return std::abs(v - wanted); };
  const std::int64_t least = distance(*std::min_element(
      allowed.begin(), allowed.end(), [&](std::int64_t a, std::int64_t b) { return distance(a) < distance(b); }));
  Values found;
  std::copy_if(allowed.begin(), allowed.end(), std::back_inserter(found),
               [&](std::int64_t v) { return distance(v) == least; });
  return found;
}

/// "allowed: 1, 2, 4, 8; nearest: 8"
std::string choices(const Values& allowed, std::int64_t wanted) {
  return fmt::format("allowed: {}; nearest: {}", fmt::join(allowed, ", "), fmt::join(nearest(allowed, wanted), " or "));
}

/// "allowed: multiples of 8; nearest: 16 or 24"
std::string multiples(std::int64_t unit, std::int64_t wanted) {
  const std::int64_t below = wanted / unit * unit;
  Values around = below > 0 ? Values{below, below + unit} : Values{unit};
  return fmt::format("allowed: multiples of {}; nearest: {}", unit, fmt::join(nearest(around, wanted), " or "));
}

Values divisors(std::int64_t n) {
  Values found;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    found.push_back(d);
    if (d != n / d) found.push_back(n / d);
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// Whether KV heads can be spread over `tp` ranks: whole heads each, or each head on a whole number of ranks.
bool kv_heads_spread(std::int64_t kv_heads, std::int64_t tp) {
  return kv_heads >= tp ? kv_heads % tp == 0 : tp % kv_heads == 0;
}

bool all_positive(const Model& model, const Plan& plan, const Training& training, std::int64_t gpus, Errors& errors) {
  const std::pair<const char*, std::int64_t> values[] = {
      {"parallelism.tp", plan.tp},
      {"parallelism.cp", plan.cp},
      {"parallelism.pp", plan.pp},
      {"parallelism.dp", plan.dp},
      {"parallelism.ep", plan.ep},
      {"parallelism.etp", plan.etp},
      {"parallelism.schedule.virtual_stages", plan.schedule.virtual_stages},
      {"parallelism.bucket_parameters", plan.bucket_parameters},
      {"training.sequence_length", training.sequence_length},
      {"training.global_batch", training.global_batch},
      {"training.microbatch", training.microbatch},
      {"cluster.gpus", gpus},
      {"model.layers", model.layers},
      {"model.hidden", model.hidden},
      {"model.ffn_hidden", model.ffn_hidden},
      {"model.heads", model.heads},
      {"model.kv_heads", model.kv_heads},
      {"model.head_dim", model.head_dim},
      {"model.vocabulary", model.vocabulary}};
  for (const auto& [key, value] : values) {
    const std::string name = std::string(key).substr(std::string(key).rfind('.') + 1);
    if (value < 1) add(errors, {key}, fmt::format("{} is {}; allowed: 1 or more", name, value));
  }
  return errors.empty();
}

void check_model(const Model& model, const Training& training, Errors& errors) {
  if (model.heads % model.kv_heads != 0) {
    add(errors, {"model.kv_heads", "model.heads"},
        fmt::format("kv_heads {} does not divide {} heads; {}", model.kv_heads, model.heads,
                    choices(divisors(model.heads), model.kv_heads)));
  }
  if (model.positions == Positions::learned && training.sequence_length > model.max_positions) {
    add(errors, {"training.sequence_length", "model.max_positions"},
        fmt::format("sequence_length {} is longer than the model's {} learned positions; allowed: 1 to {}; nearest: {}",
                    training.sequence_length, model.max_positions, model.max_positions, model.max_positions));
  }
}

void check_ranks(const Plan& plan, std::int64_t gpus, Errors& errors) {
  if (plan.ranks() == gpus) return;
  const std::int64_t replica = plan.tp * plan.cp * plan.pp;
  const std::string wrong = fmt::format("tp {} x cp {} x pp {} x dp {} = {} ranks, but there are {} GPUs", plan.tp,
                                        plan.cp, plan.pp, plan.dp, plan.ranks(), gpus);
  if (gpus % replica == 0) {
    add(errors, {"parallelism.dp", "cluster.gpus"}, fmt::format("{}; allowed: dp {}", wrong, gpus / replica));
  } else {
    add(errors, {"cluster.gpus", "parallelism.tp", "parallelism.pp", "parallelism.dp"},
        fmt::format("{}; gpus {}", wrong, multiples(replica, gpus)));
  }
}

/// TP splits heads, KV heads, the MLP width and, with sequence parallelism, the sequence. It never splits the hidden
/// size by itself, and the vocabulary is padded to fit.
void check_tp(const Model& model, const Plan& plan, const Training& training, Errors& errors) {
  const bool splits_by_cp = training.sequence_length % plan.cp == 0;  // else no tp helps, and check_cp says so
  const auto sequence_splits = [&](std::int64_t tp) {
    return !plan.sequence_parallel || !splits_by_cp || training.sequence_length % (plan.cp * tp) == 0;
  };
  Values allowed = divisors(model.heads);
  std::erase_if(allowed, [&](std::int64_t tp) {
    return !kv_heads_spread(model.kv_heads, tp) || model.ffn_hidden % tp != 0 || !sequence_splits(tp);
  });
  const auto refuse = [&](const char* other_key, const std::string& why) {
    add(errors, {"parallelism.tp", other_key}, fmt::format("tp {} {}; {}", plan.tp, why, choices(allowed, plan.tp)));
  };
  if (model.heads % plan.tp != 0) refuse("model.heads", fmt::format("does not divide {} heads", model.heads));
  if (!kv_heads_spread(model.kv_heads, plan.tp)) {
    refuse("model.kv_heads", fmt::format("neither divides {0} KV heads nor is a multiple of {0}", model.kv_heads));
  }
  if (model.ffn_hidden % plan.tp != 0) {
    refuse("model.ffn_hidden", fmt::format("does not divide ffn_hidden {}", model.ffn_hidden));
  }
  if (!sequence_splits(plan.tp)) {
    refuse("training.sequence_length",
           plan.cp == 1 ? fmt::format("does not divide sequence_length {}, which sequence_parallel splits",
                                      training.sequence_length)
                        : fmt::format("does not divide sequence_length {} / cp {}, which sequence_parallel splits",
                                      training.sequence_length, plan.cp));
  }
  if (plan.overlap.tp && plan.tp > 1 && !plan.sequence_parallel) {  // Megatron-Core asserts it, too
    add(errors, {"parallelism.overlap.tp", "parallelism.sequence_parallel"},
        "overlap.tp without sequence_parallel, whose gathers and scatters it hides; allowed: false, or "
        "sequence_parallel true");
  }
}

/// CP splits the sequence: into 2 cp chunks, of which every rank takes one from either end, so that causal attention is
/// balanced; or, with all-to-all, the heads while attention runs (Ulysses, arXiv 2309.14509).
void check_cp(const Model& model, const Plan& plan, const Training& training, Errors& errors) {
  if (plan.cp == 1) return;
  const bool heads_split = plan.context == ContextExchange::all_to_all;
  const std::int64_t unit = heads_split ? plan.cp : 2 * plan.cp;
  if (training.sequence_length % unit != 0) {
    add(errors, {"training.sequence_length", "parallelism.cp"},
        fmt::format("sequence_length {} does not split into {} for cp {}; {}", training.sequence_length,
                    heads_split ? "equal parts" : "two equal parts a rank", plan.cp,
                    multiples(unit, training.sequence_length)));
  }
  if (!heads_split) return;
  const std::int64_t heads = model.heads / plan.tp;
  const auto splits = [&](std::int64_t cp) { return heads % cp == 0 && kv_heads_spread(model.kv_heads, cp * plan.tp); };
  const bool tp_splits = model.heads % plan.tp == 0 && kv_heads_spread(model.kv_heads, plan.tp);  // else check_tp's
  if (!tp_splits || splits(plan.cp)) return;
  Values allowed = divisors(heads);
  std::erase_if(allowed, [&](std::int64_t cp) { return !splits(cp); });
  add(errors, {"parallelism.cp", "model.heads", "parallelism.context"},
      fmt::format("cp {} with context all_to_all does not divide {} heads and {} KV heads on tp {}; {}", plan.cp,
                  model.heads, model.kv_heads, plan.tp, choices(allowed, plan.cp)));
}

/// The experts' grid lies over the same ranks as the attention's and has the same pipeline stages (Megatron-Core
/// asserts it of the rank orders).
bool grids_share_stages(const Plan& plan) {
  std::int64_t attention = 1;
  std::int64_t experts = 1;
  for (const Axis axis : plan.order) {
    if (axis == Axis::pp) break;
    if (axis == Axis::tp) attention *= plan.tp, experts *= plan.etp;
    if (axis == Axis::cp) attention *= plan.cp;
    if (axis == Axis::ep) experts *= plan.ep;
    if (axis == Axis::dp) attention *= plan.dp, experts *= plan.tp * plan.cp * plan.dp / (plan.ep * plan.etp);
  }
  return attention == experts;
}

void check_expert_grid(const Experts& experts, const Plan& plan, Errors& errors) {
  const std::int64_t ranks = plan.tp * plan.cp * plan.dp;
  Values eps = divisors(experts.count);
  std::erase_if(eps, [&](std::int64_t ep) { return ranks % (ep * plan.etp) != 0; });
  if (eps.empty()) eps = {1};
  if (experts.count % plan.ep != 0) {
    add(errors, {"parallelism.ep", "model.experts.count"},
        fmt::format("ep {} does not divide {} experts; {}", plan.ep, experts.count, choices(eps, plan.ep)));
  }
  if (ranks % (plan.ep * plan.etp) != 0) {
    add(errors, {"parallelism.ep", "parallelism.etp", "parallelism.dp"},
        fmt::format("etp {} x ep {} does not divide tp {} x cp {} x dp {} = {} ranks of a stage; ep {}", plan.etp,
                    plan.ep, plan.tp, plan.cp, plan.dp, ranks, choices(eps, plan.ep)));
  } else if (!grids_share_stages(plan)) {
    add(errors, {"parallelism.order", "parallelism.ep"},
        "order puts pp between axes whose extents differ for attention and experts; allowed: pp last or first");
  }
  if (experts.ffn_hidden % plan.etp != 0) {
    add(errors, {"parallelism.etp", "model.experts.ffn_hidden"},
        fmt::format("etp {} does not divide the experts' ffn_hidden {}; {}", plan.etp, experts.ffn_hidden,
                    choices(divisors(experts.ffn_hidden), plan.etp)));
  }
  if (experts.shared_ffn_hidden % plan.tp != 0) {
    add(errors, {"parallelism.tp", "model.experts.shared_ffn_hidden"},
        fmt::format("tp {} does not divide the shared experts' ffn_hidden {}; {}", plan.tp, experts.shared_ffn_hidden,
                    choices(divisors(experts.shared_ffn_hidden), plan.tp)));
  }
}

void check_experts(const Model& model, const Plan& plan, Errors& errors) {
  if (!model.experts) {
    const std::pair<const char*, std::int64_t> extents[] = {{"ep", plan.ep}, {"etp", plan.etp}};
    for (const auto& [name, extent] : extents)
      if (extent != 1)
        add(errors, {std::string("parallelism.") + name, "model"},
            fmt::format("{} {} for a model without experts; allowed: 1", name, extent));
    return;
  }
  check_expert_grid(*model.experts, plan, errors);
  if (plan.tp > 1 && !plan.sequence_parallel) {  // else every rank of the group would route the same tokens
    add(errors, {"parallelism.sequence_parallel", "parallelism.tp"},
        fmt::format("experts with tp {} and without sequence_parallel; allowed: sequence_parallel true, or tp 1",
                    plan.tp));
  }
  if (plan.expert_imbalance < 1) {
    add(errors, {"parallelism.experts.imbalance"},
        fmt::format("imbalance {} is the busiest rank's share over the mean; allowed: 1 or more",
                    plan.expert_imbalance));
  }
  if (plan.expert_capacity < 0) {
    add(errors, {"parallelism.experts.capacity"},
        fmt::format("capacity {}; allowed: 0 for dropless, or a factor of the mean such as 1.25",
                    plan.expert_capacity));
  }
}

/// ZeRO shares state among the ranks that hold the same parameters; HSDP among a part of them.
void check_sharding(const Plan& plan, Errors& errors) {
  if (plan.zero < 0 || plan.zero > 3) {
    add(errors, {"parallelism.zero"}, fmt::format("zero {}; allowed: 0, 1, 2, 3", plan.zero));
  }
  if (plan.sharding.prefetch < 0) {
    add(errors, {"parallelism.sharding.prefetch"},
        fmt::format("prefetch {}; allowed: 0 or more units", plan.sharding.prefetch));
  }
  if (placement_of(plan.schedule) == Placement::bidirectional &&
      (plan.zero > 1 || plan.gradient_sync == GradientSync::each)) {
    add(errors, {"parallelism.zero", "parallelism.schedule.kind", "parallelism.gradient_sync"},
        fmt::format("zero {} and gradient_sync {} with schedule {}, whose two holders of a stage reach it in opposite "
                    "order; allowed: zero 0 or 1, gradient_sync last",
                    plan.zero, to_text(plan.gradient_sync), to_text(plan.schedule.kind)));
  }
  if (plan.hsdp_shard == 0) return;
  if (plan.zero == 0) {
    add(errors, {"parallelism.hsdp", "parallelism.zero"},
        "hsdp with zero 0, which shards nothing; allowed: zero 1, 2 or 3");
  }
  if (plan.hsdp_shard < 1 || plan.replicas() % plan.hsdp_shard != 0) {
    add(errors, {"parallelism.hsdp", "parallelism.dp"},
        fmt::format("hsdp shard {} does not divide the {} ranks that hold the same parameters; {}", plan.hsdp_shard,
                    plan.replicas(), choices(divisors(plan.replicas()), plan.hsdp_shard)));
  }
}

/// A stage holds a layer at least; only the embedding and the loss may have a stage of their own.
bool stages_fit(std::int64_t layers, std::int64_t stages) { return stages <= layers || stages == layers + 2; }

/// Layers that the plan itself gives to its stages.
void check_stage_layers(const Model& model, const Plan& plan, Errors& errors) {
  const std::vector<std::int64_t>& given = plan.stage_layers;
  const auto stages = static_cast<std::int64_t>(given.size());
  const std::int64_t sum = std::accumulate(given.begin(), given.end(), std::int64_t{0});
  const std::vector<std::string> keys = {"parallelism.stage_layers", "parallelism.pp", "model.layers"};
  if (stages != plan.stages())
    add(errors, keys,
        fmt::format("stage_layers names {} stages, but the plan has {}; allowed: one number a stage", stages,
                    plan.stages()));
  if (sum != model.layers)
    add(errors, keys,
        fmt::format("stage_layers adds up to {} layers, but the model has {}; allowed: {} in all", sum, model.layers,
                    model.layers));
  for (std::int64_t s = 0; s < stages; ++s) {
    const bool end = s == 0 || s + 1 == stages;
    const std::int64_t layers = given[static_cast<std::size_t>(s)];
    if (layers < (end ? 0 : 1))
      add(errors, keys,
          fmt::format("stage_layers gives stage {} {} layers; allowed: 1 or more, and 0 at either end", s, layers));
  }
}

void check_stages(const Model& model, const Plan& plan, Errors& errors) {
  if (!plan.stage_layers.empty()) {
    check_stage_layers(model, plan, errors);
    return;
  }
  if (stages_fit(model.layers, plan.stages())) return;
  const std::int64_t chunks = plan.stages() / plan.pp;  // 1 where both chunks of a rank hold copies (DualPipe)
  const ChunkRange range = chunks_allowed(plan.schedule.kind);
  const bool chunked = chunks > 1 && range.most > range.least;
  const std::int64_t other = chunked ? plan.pp : chunks;
  Values allowed;
  for (std::int64_t v = 1; v * other <= model.layers + 2; ++v) {
    if (stages_fit(model.layers, v * other)) allowed.push_back(v);
  }
  const std::string what = chunked && !allowed.empty() ? "virtual_stages" : "pp";
  if (allowed.empty()) {  // even one chunk a rank is too many: the fault is in pp
    for (std::int64_t pp = 1; pp <= model.layers + 2; ++pp) {
      if (stages_fit(model.layers, pp)) allowed.push_back(pp);
    }
  }
  const std::int64_t wanted = what == "pp" ? plan.pp : chunks;
  const std::string virtual_key = "parallelism.schedule.virtual_stages";
  add(errors,
      what == "pp" ? std::vector<std::string>{"parallelism.pp", virtual_key, "model.layers"}
                   : std::vector<std::string>{virtual_key, "parallelism.pp", "model.layers"},
      fmt::format("pp {} x virtual_stages {} = {} stages for {} layers; allowed: 1 to {} stages, or {} with the "
                  "embedding and the loss on stages of their own; nearest: {} {}",
                  plan.pp, chunks, plan.stages(), model.layers, model.layers, model.layers + 2, what,
                  fmt::join(nearest(allowed, wanted), " or ")));
}

/// The batch splits into whole microbatches on every replica.
void check_batch(const Plan& plan, const Training& training, Errors& errors) {
  const std::int64_t unit = training.microbatch * plan.dp;
  if (training.global_batch % unit == 0) return;
  add(errors, {"training.global_batch", "training.microbatch", "parallelism.dp"},
      fmt::format("global_batch {} is not a multiple of microbatch {} x dp {} = {}; {}", training.global_batch,
                  training.microbatch, plan.dp, unit, multiples(unit, training.global_batch)));
}

void check_rest(const Plan& plan, const Training& training, Errors& errors) {
  std::array<Axis, 5> sorted = plan.order;
  std::sort(sorted.begin(), sorted.end());
  if (!std::equal(sorted.begin(), sorted.end(), std::begin(all_axes))) {
    add(errors, {"parallelism.order"}, "order does not name every axis once; allowed: tp, cp, ep, dp, pp in any order");
  }
  if (quantised(training.gradients)) {
    add(errors, {"training.gradients"},
        fmt::format("gradients {}; allowed: fp32, bf16, fp16", to_text(training.gradients)));
  }
  if (training.recompute_layers < 1) {
    add(errors, {"training.recompute_layers"},
        fmt::format("recompute_layers {}; allowed: 1 or more", training.recompute_layers));
  }
  if (training.recompute == Recompute::selective && training.recompute_modules.empty()) {
    add(errors, {"training.recompute_modules", "training.recompute"},
        "recompute selective without modules; allowed: attention, norm, activation, latent, mlp, experts, matmul, "
        "projection");
  }
}

}  // namespace

std::vector<PlanError> check(const Model& model, const Plan& plan, const Training& training, std::int64_t gpus) {
  Errors errors;
  if (!all_positive(model, plan, training, gpus, errors)) return errors;  // the other rules divide by them
  check_model(model, training, errors);
  check_ranks(plan, gpus, errors);
  check_tp(model, plan, training, errors);
  check_cp(model, plan, training, errors);
  check_experts(model, plan, errors);
  check_sharding(plan, errors);
  check_stages(model, plan, errors);
  check_batch(plan, training, errors);
  for (PlanError& error : check_schedule(plan, training)) errors.push_back(std::move(error));
  check_rest(plan, training, errors);
  return errors;
}

}  // namespace foretrain
