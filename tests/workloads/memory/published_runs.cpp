#include "tests/workloads/memory/published_runs.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/workloads/gpus.h"

namespace foretrain {
namespace {

constexpr double gb = 1e9;
constexpr double gib = 1024.0 * 1024 * 1024;

std::int64_t whole(const ReferenceRow& row, const char* column, std::int64_t otherwise = 1) {
  const std::string& text = row.at(column);
  return text.empty() ? otherwise : std::stoll(text);
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

Plan plan_of(const ReferenceRow& row) {
  const std::string& zero = row.at("zero_stage/fsdp");
  return {.tp = whole(row, "tp"),
          .cp = whole(row, "cp"),
          .pp = whole(row, "pp"),
          .dp = whole(row, "dp"),
          .ep = whole(row, "ep"),
          .sequence_parallel = row.at("sp") == "1",
          .zero = has(zero, "FSDP") ? 3 : (zero.empty() ? 0 : std::stoi(zero))};
}

Training training_of(const ReferenceRow& row) {
  Training t{.sequence_length = whole(row, "seq"),
             .global_batch = whole(row, "gbs"),
             .microbatch = whole(row, "mbs"),
             .gradients = Precision::bf16};
  if (has(row.at("recompute"), "full")) t.recompute = Recompute::full;
  return t;
}

Model llama_of(const ReferenceRow& row) {
  return llama({whole(row, "layers"), whole(row, "hidden"), whole(row, "ffn_hidden"), whole(row, "heads"),
                whole(row, "kv_heads"), whole(row, "vocab")});
}

// ---- one family each ----

/// Qi 2023: Megatron of 2023 in fp16 with half-precision gradients, no flash attention; bytes allocated, in 1e9.
/// Interleaved with one layer a chunk.
std::optional<PublishedRun> zero_bubble(const ReferenceRow& row, PublishedRun run) {
  run.model = gpt(whole(row, "layers"), whole(row, "hidden"), whole(row, "heads"), 50257);
  run.model.max_positions = run.training.sequence_length;
  run.model.tied_embeddings = false;
  run.training.precision = run.training.gradients = Precision::fp16;
  run.training.attention = AttentionKernel::unfused;
  run.published *= gb;
  const std::string& schedule = row.at("pp_schedule");
  if (schedule == "1F1B-I") {
    run.plan.schedule = {ScheduleKind::interleaved_1f1b, (run.model.layers + 2) / run.plan.pp};
  } else if (schedule != "1F1B") {
    return std::nullopt;
  }
  return run;
}

Model deepseek(std::int64_t layers, const ReferenceRow& row) {
  const bool v3 = has(row.at("model"), "V3");
  Model m = llama({layers, whole(row, "hidden"), v3 ? 18432 : 12288, 128, 128, whole(row, "vocab")});
  m.latent = LatentAttention{.query_rank = 1536, .kv_rank = 512, .nope_dim = 128, .rope_dim = 64, .value_dim = 128};
  m.experts = Experts{.count = whole(row, "experts"),
                      .topk = whole(row, "topk"),
                      .ffn_hidden = whole(row, "ffn_hidden"),
                      .shared_ffn_hidden = v3 ? 2048 : 2 * 1536,
                      .first_dense = 1};
  return m;
}

/// Megatron-Core with the distributed optimizer, fp32 gradients and fused cross entropy; GiB allocated.
PublishedRun simumax(const ReferenceRow& row, PublishedRun run) {
  run.model = row.at("experts").empty() ? llama_of(row) : deepseek(whole(row, "layers"), row);
  run.training.gradients = Precision::fp32;
  run.training.loss = LossKernel::fused;
  run.plan.context = ContextExchange::all_to_all;
  run.published *= gib;
  run.usable = gibibytes(178);
  return run;
}

/// Megatron Bridge's recipes: bf16 gradients, allocated bytes of rank 0.
std::optional<PublishedRun> megatron_bridge(const ReferenceRow& row, PublishedRun run) {
  const std::string& recompute = row.at("recompute");
  run.stage = 0;
  run.plan.zero = 1;
  run.plan.sequence_parallel = run.plan.tp > 1;
  run.published *= gb;
  run.training.recompute = recompute == "none" || recompute.empty() ? Recompute::none : Recompute::selective;
  run.training.recompute_modules.clear();
  const std::pair<const char*, RecomputeModule> words[] = {{"core_attn", RecomputeModule::attention},
                                                           {"layernorm", RecomputeModule::norm},
                                                           {"mlp", RecomputeModule::mlp},
                                                           {"moe_act", RecomputeModule::activation}};
  for (const auto& [word, module] : words)
    if (has(recompute, word)) run.training.recompute_modules.push_back(module);
  const std::string& name = row.at("model");
  if (has(name, "Llama")) {
    run.model = llama_of(row);
    run.training.precision = Precision::fp8;
    run.plan.schedule = {ScheduleKind::interleaved_1f1b, whole(row, "vpp")};
  } else if (has(name, "Moonlight")) {  // its published config.json
    run.model = llama({27, 2048, 11264, 16, 16, 163840});
    run.model.latent = LatentAttention{.kv_rank = 512, .nope_dim = 128, .rope_dim = 64, .value_dim = 128};
    run.model.experts =
        Experts{.count = 64, .topk = 6, .ffn_hidden = 1408, .shared_ffn_hidden = 2816, .first_dense = 1};
    run.training.moments = Precision::bf16;  // the recipe's precision-aware optimizer
  } else if (has(name, "Qwen3")) {
    run.model = llama({48, 2048, 6144, 32, 4, 151936});
    run.model.head_dim = 128;
    run.model.qk_norm = true;
    run.model.experts = Experts{.count = 128, .topk = 8, .ffn_hidden = 768};
    run.published *= gib / gb;
  } else {
    return std::nullopt;  // layers of Mamba
  }
  return run;
}

/// Nanotron gives its stages layers by cost, the head counted; the layer that crosses a share still belongs to it.
std::vector<std::int64_t> nanotron_layers(const Model& m, std::int64_t stages) {
  const auto layer = static_cast<double>(m.hidden * (4 * m.hidden + 3 * m.ffn_hidden));
  const auto head = static_cast<double>(m.hidden * m.vocabulary);
  const double share = (static_cast<double>(m.layers) * layer + head) / static_cast<double>(stages);
  std::vector<std::int64_t> layers(static_cast<std::size_t>(stages));
  std::size_t stage = 0;
  for (std::int64_t l = 1; l <= m.layers; ++l) {
    ++layers[stage];
    if (static_cast<double>(l) * layer > share * static_cast<double>(stage + 1)) ++stage;
  }
  return layers;
}

PublishedRun nanotron(const ReferenceRow& row, PublishedRun run) {
  run.model = llama_of(row);
  run.model.tied_embeddings = run.model.hidden < 4096;  // "tied embeddings below 4B"
  run.training.gradients = Precision::fp32;
  run.training.stack.framework = Framework::nanotron;
  run.plan.stage_layers = nanotron_layers(run.model, run.plan.pp);
  run.reading = Reading::reserved;
  run.published *= gib;
  return run;
}

/// FSDP2 of torchtitan; GiB reserved. A pipeline's local batch is cut into as many microbatches as stages.
PublishedRun torchtitan(const ReferenceRow& row, PublishedRun run) {
  run.model = llama_of(row);
  run.training.stack.framework = Framework::fsdp;
  run.training.gradients = Precision::fp32;
  run.training.loss = run.plan.tp > 1 ? LossKernel::parallel : LossKernel::eager;
  run.training.compiled = !has(row.at("notes"), "no torch.compile");
  if (has(row.at("recompute"), "selective")) {
    run.training.recompute = Recompute::selective;
    run.training.recompute_modules = {RecomputeModule::matmul};
  }
  if (run.plan.pp > 1) run.training.microbatch /= run.plan.pp;
  if (has(row.at("pp_schedule"), "Interleaved")) run.plan.schedule = {ScheduleKind::interleaved_1f1b, 2};
  run.reading = Reading::reserved;
  run.published *= gib;
  run.usable = gibibytes(95);
  return run;
}

/// "205B" over pp stages: the layers that the source does not give.
std::int64_t layers_from_size(const ReferenceRow& row, std::int64_t hidden, std::int64_t pp) {
  const double layers = std::stod(row.at("params")) * 1e9 / (12.0 * static_cast<double>(hidden * hidden));
  return std::llround(layers / static_cast<double>(pp)) * pp;
}

/// Megatron-DeepSpeed; thousands of MiB that nvidia-smi showed.
PublishedRun bigscience(const ReferenceRow& row, const PublishedRun& given) {
  const std::int64_t hidden = whole(row, "hidden");
  const std::int64_t layers =
      row.at("layers").empty() ? layers_from_size(row, hidden, given.plan.pp) : whole(row, "layers");
  // Where the source gives no heads: those of its runs of the same width.
  const std::int64_t heads = whole(row, "heads", hidden == 14336 ? 64 : 96);
  const bool fp32_accumulation = has(row.at("precision"), "fp32");
  PublishedRun run = bigscience_run(layers, hidden, heads, given.plan, given.training.microbatch, fp32_accumulation);
  run.id = given.id;
  run.family = given.family;
  run.training.global_batch = given.training.global_batch;
  run.published = given.published * 1000.0 * 1024 * 1024;
  return run;
}

}  // namespace

std::optional<PublishedRun> published_run(const ReferenceRow& row) {
  if (row.at("mem_gb").empty() || row.at("seq").empty() || row.at("mbs").empty()) return std::nullopt;
  const std::string& family = row.at("family");
  PublishedRun run;
  run.id = row.at("id");
  run.family = family;
  run.plan = plan_of(row);
  run.training = training_of(row);
  run.published = std::stod(row.at("mem_gb"));
  if (family == "zero-bubble") return zero_bubble(row, run);
  if (family == "simumax-b200") return simumax(row, run);
  if (family == "mbridge-notes") return megatron_bridge(row, run);
  if (family == "nanotron") return nanotron(row, run);
  if (family == "torchtitan") return torchtitan(row, run);
  if (family == "bigscience") return bigscience(row, run);
  return std::nullopt;
}

PublishedRun bigscience_run(std::int64_t layers, std::int64_t hidden, std::int64_t heads, const Plan& plan,
                            std::int64_t microbatch, bool bf16) {
  PublishedRun run;
  run.model = gpt(layers, hidden, heads, 250'000);
  run.model.positions = Positions::alibi;
  run.model.embedding_norm = true;
  run.plan = plan;
  run.training.sequence_length = 2048;
  run.training.microbatch = microbatch;
  run.training.global_batch = microbatch * plan.dp * 8 * plan.pp;  // more microbatches than stages: no more alive
  run.training.stack.framework = Framework::deepspeed;
  run.training.attention = AttentionKernel::unfused;
  run.training.recompute = Recompute::full;
  run.training.precision = bf16 ? Precision::bf16 : Precision::fp16;
  run.training.gradients = bf16 ? Precision::fp32 : Precision::fp16;
  run.reading = Reading::device;
  return run;
}

std::vector<PublishedRun> published_runs() {
  std::vector<PublishedRun> runs;
  std::set<std::string> seen;
  for (const ReferenceRow& row : reference_rows("training_runs.csv")) {
    const auto run = published_run(row);
    if (!run) continue;
    std::string key;
    for (const char* column : {"family", "model", "layers", "hidden", "heads", "tp", "cp", "pp", "ep", "dp", "seq",
                               "mbs", "zero_stage/fsdp", "recompute", "precision", "pp_schedule", "mem_gb", "notes"})
      if (column != std::string("notes") || run->family == "torchtitan" || run->family == "mbridge-notes")
        key += row.at(column) + '|';
    if (seen.insert(key).second) runs.push_back(*run);
  }
  return runs;
}

PeakMemory peak_of(const PublishedRun& run) {
  if (run.stage) return peak_memory(run.model, run.plan, run.training, *run.stage);
  PeakMemory most;
  for (std::int64_t stage = 0; stage < run.plan.pp; ++stage) {
    const PeakMemory peak = peak_memory(run.model, run.plan, run.training, stage);
    if (peak.total() > most.total()) most = peak;
  }
  return most;
}

double read_as(const PublishedRun& run, const PeakMemory& peak) {
  switch (run.reading) {
    case Reading::allocated:
      return static_cast<double>(peak.allocated().count());
    case Reading::reserved:
      return static_cast<double>((peak.allocated() + allocator_slack(peak.allocated(), run.training)).count());
    case Reading::device:
      return static_cast<double>(peak.total().count());
  }
  return 0;
}

}  // namespace foretrain
