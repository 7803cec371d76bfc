#include "tests/tools/samples.h"

namespace foretrain {
namespace {

Scenario sample_scenario() {
  Scenario s;
  s.name = "llama3-405b";
  s.model.name = "llama3-405b";
  s.model.layers = 126;
  s.model.hidden = 16384;
  s.model.heads = 128;
  s.model.kv_heads = 8;
  s.model.head_dim = 128;
  s.cluster.name = "h100-roce-clos";
  s.cluster.gpu.name = "h100-80gb";
  s.cluster.max_gpus = 24576;
  s.gpus = 16384;
  s.training.sequence_length = 8192;
  s.training.global_batch = 2048;
  s.plan = {.tp = 8, .cp = 1, .pp = 16, .dp = 128, .sequence_parallel = true, .zero = 1};
  s.plan.schedule = {ScheduleKind::interleaved_1f1b, 8};
  return s;
}

std::vector<CommunicationResult> sample_communication() {
  return {{"tp", "all_gather", 12032, 134217728, 1.5, 0.9, 340e9, 1.0},
          {"tp", "reduce_scatter", 12032, 134217728, 1.5, 0.8, 340e9, 1.0},
          {"dp", "all_gather", 40, 2147483648, 0.4, 0.01, 41e9, 1.25},
          {"dp", "reduce_scatter", 40, 2147483648, 0.5, 0.15, 40e9, 1.3},
          {"pp", "send_recv", 512, 16777216, 0.2, 0.02, 40e9, 1.02}};
}

}  // namespace

Result sample_result() {
  Result r;
  r.scenario = sample_scenario();
  r.step_time_s = 10;
  r.tokens_per_s = 1677721.6;
  r.tokens_per_s_per_gpu = 102.4;
  r.model_tflops_per_gpu = 400;
  r.mfu = 0.4045;
  r.hfu = 0.42;
  r.hardware_tflops_per_gpu = 415;
  r.bubble_fraction = 0.08;
  r.breakdown = {.compute = 6,
                 .recompute = 0.5,
                 .tp = 1.7,
                 .cp = 0.1,
                 .ep = 0.05,
                 .dp = 0.16,
                 .pp = 0.02,
                 .bubble = 0.8,
                 .optimizer = 0.4,
                 .other = 0.27};
  r.stages = {{.stage = 0,
               .layers = 63,
               .compute_s = 6.25,
               .bubble_s = 0.75,
               .peak_memory_bytes = 70LL << 30,
               .peak_at_s = 3.5,
               .parts_bytes = {6LL << 30, 12LL << 30, 1LL << 30, 47LL << 30, 1LL << 30, 3LL << 30}},
              {.stage = 1, .layers = 63, .compute_s = 6.75, .bubble_s = 0.85, .peak_memory_bytes = 60LL << 30}};
  r.memory = {.fits = true,
              .verdict = Verdict::fits,
              .pressure = 0.875,
              .peak_bytes = 70LL << 30,
              .capacity_bytes = 80LL << 30,
              .peak_stage = 0,
              .peak_at_s = 3.5,
              .parts_bytes = {6LL << 30, 12LL << 30, 1LL << 30, 47LL << 30, 1LL << 30, 3LL << 30}};
  r.communication = sample_communication();
  r.tiers = {{"nvlink", 32768, 9e15, 0.3, 0.35}, {"pcie", 65536, 2e15, 0.02, 0.03}, {"nic", 32768, 2e15, 0.05, 0.1}};
  r.hottest = {{"leaf17", "spine3", "leaf-spine", 0.61, 1.25}, {"leaf18", "spine3", "leaf-spine", 0.6, 1.2}};
  r.engine = {.ranks = 16384,
              .rank_classes = 16,
              .events = 12'300'000,
              .operations = 49'000'000,
              .wall_s = 6.5,
              .peak_rss_bytes = 2ULL << 30};
  return r;
}

namespace {

Program sender() {
  ProgramBuilder p;
  p.memory({.label = "activations", .change = bytes(100)});
  const Event forward = p.compute(main_stream, {.label = "F", .duration = microseconds(2), .place = {3, 0, 1}});
  p.memory({.label = "activations", .change = bytes(-100)});
  const Event after[] = {forward};
  p.communicate(p.stream("pp send"),
                {.label = "send", .op = Collective::send_recv, .size = bytes(1000), .after = after});
  return std::move(p).build();
}

Program receiver() {
  ProgramBuilder p;
  const Event received =
      p.communicate(p.stream("pp recv"), {.label = "recv", .op = Collective::send_recv, .size = bytes(1000)});
  const Event after[] = {received};
  p.compute(main_stream, {.label = "F", .duration = microseconds(4), .after = after});
  return std::move(p).build();
}

Time at(double us) { return Time::from_start(microseconds(us)); }

}  // namespace

Result sample_traced_result() {
  Result r = sample_result();
  Result::Timeline t;
  Job& job = t.workload.job;
  job.programs = {sender(), receiver()};
  job.communicators = {{.members = {RankId{0}, RankId{1}}, .dimension = 0}};
  job.ranks = {{.program = 0, .slots = {CommunicatorId{0}}}, {.program = 1, .slots = {CommunicatorId{0}}}};
  job.placement = {GpuId{0}, GpuId{1}};
  job.activities = {"compute"};
  job.dimensions = {{.name = "pp", .waiting_is_bubble = true}};
  job.memory_parts = {"activations"};
  t.workload.stage_of = {0, 1};
  t.ranks = {RankId{0}, RankId{1}};
  const Choice choice{Algorithm::pairwise, Protocol::simple};
  t.operations = {{{.stream = 0, .index = 0},
                   {.stream = 0, .index = 1, .start = at(0), .began = at(0), .end = at(2)},
                   {.stream = 0, .index = 2, .start = at(2), .began = at(2), .end = at(2)},
                   {.stream = 1, .index = 0, .start = at(2), .began = at(2), .end = at(3), .choice = choice}},
                  {{.stream = 1, .index = 0, .start = at(0), .began = at(2), .end = at(3), .choice = choice},
                   {.stream = 0, .index = 0, .start = at(3), .began = at(3), .end = at(7)}}};
  t.tiers = {{.bin = microseconds(3.5), .utilization = {0.25, 0.5}}};
  t.tier_names = {"nvlink"};
  t.step = microseconds(7);
  t.overhead_bytes = 7;
  r.timeline = std::make_shared<const Result::Timeline>(std::move(t));
  return r;
}

}  // namespace foretrain
