#include "tools/output/json.h"

#include <nlohmann/json.hpp>

#include "tools/output/parts.h"
#include "tools/output/yaml_to_json.h"

namespace foretrain {
namespace {

using Json = nlohmann::ordered_json;

Json breakdown_json(const Breakdown& breakdown) {
  Json json = Json::object();
  for (const BreakdownPart& part : parts_of(breakdown)) json[std::string(part.key)] = part.seconds;
  return json;
}

Json stages_json(const std::vector<StageResult>& stages) {
  Json json = Json::array();
  for (const StageResult& s : stages) {
    json.push_back({{"stage", s.stage},
                    {"compute_s", s.compute_s},
                    {"bubble_s", s.bubble_s},
                    {"peak_memory_bytes", s.peak_memory_bytes}});
  }
  return json;
}

Json gpu_kinds_json(const std::vector<GpuKindResult>& kinds) {
  Json json = Json::array();
  for (const GpuKindResult& kind : kinds) {
    json.push_back({{"gpu", kind.gpu},
                    {"gpus", kind.gpus},
                    {"compute_s", kind.compute_s},
                    {"peak_memory_bytes", kind.peak_memory_bytes},
                    {"capacity_bytes", kind.capacity_bytes}});
  }
  return json;
}

Json parts_json(const PartBytes& bytes) {
  Json parts = Json::object();
  for (const MemoryPart part : all_memory_parts) {
    parts[std::string(to_text(part))] = bytes.at(static_cast<std::size_t>(part));
  }
  return parts;
}

Json memory_section(const MemoryResult& memory) {
  return {{"fits", memory.fits},
          {"verdict", to_text(memory.verdict)},
          {"pressure", memory.pressure},
          {"peak_bytes", memory.peak_bytes},
          {"capacity_bytes", memory.capacity_bytes},
          {"peak_stage", memory.peak_stage},
          {"parts_bytes", parts_json(memory.parts_bytes)}};
}

Json communication_json(const std::vector<CommunicationResult>& rows) {
  Json json = Json::array();
  for (const CommunicationResult& row : rows) {
    json.push_back({{"dimension", row.dimension},
                    {"op", row.op},
                    {"calls", row.calls},
                    {"bytes", row.bytes},
                    {"time_s", row.time_s},
                    {"exposed_s", row.exposed_s},
                    {"busbw_Bps", row.busbw_Bps},
                    {"slowdown", row.slowdown}});
  }
  return json;
}

Json links_json(const Result& result) {
  Json tiers = Json::array();
  for (const TierResult& tier : result.tiers) {
    tiers.push_back({{"tier", tier.tier},
                     {"links", tier.links},
                     {"bytes", tier.bytes},
                     {"mean_utilization", tier.mean_utilization},
                     {"max_utilization", tier.max_utilization}});
  }
  Json hottest = Json::array();
  for (const HotLink& link : result.hottest) {
    hottest.push_back({{"from", link.from},
                       {"to", link.to},
                       {"tier", link.tier},
                       {"utilization", link.utilization},
                       {"saturated_s", link.saturated_s}});
  }
  return {{"tiers", std::move(tiers)}, {"hottest", std::move(hottest)}};
}

}  // namespace

std::string result_json(const Result& result) {
  Json json = Json::object();
  json["schema"] = "foretrain.result/1";
  json["scenario"] = yaml_to_json(to_yaml(result.scenario));
  json["step_time_s"] = result.step_time_s;
  json["tokens_per_s"] = result.tokens_per_s;
  json["tokens_per_s_per_gpu"] = result.tokens_per_s_per_gpu;
  json["model_tflops_per_gpu"] = result.model_tflops_per_gpu;
  json["mfu"] = result.mfu;
  json["hfu"] = result.hfu;
  json["bubble_fraction"] = result.bubble_fraction;
  json["breakdown_s"] = breakdown_json(result.breakdown);
  json["slowed_s"] = result.slowed_s;
  json["stages"] = stages_json(result.stages);
  if (result.gpu_kinds.size() > 1) json["gpu_kinds"] = gpu_kinds_json(result.gpu_kinds);
  json["memory"] = memory_section(result.memory);
  json["communication"] = communication_json(result.communication);
  json["links"] = links_json(result);
  json["engine"] = {{"ranks", result.engine.ranks},
                    {"rank_classes", result.engine.rank_classes},
                    {"asymmetries", result.engine.asymmetries},
                    {"events", result.engine.events},
                    {"wall_s", result.engine.wall_s},
                    {"peak_rss_bytes", result.engine.peak_rss_bytes}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string memory_json(const Result& result) {
  Json json = Json::object();
  json["schema"] = "foretrain.memory/1";
  json["scenario"] = yaml_to_json(to_yaml(result.scenario));
  json["memory"] = memory_section(result.memory);
  json["stages"] = Json::array();
  for (const StageResult& s : result.stages) {
    json["stages"].push_back({{"stage", s.stage},
                              {"layers", s.layers},
                              {"peak_bytes", s.peak_memory_bytes},
                              {"peak_at_s", s.peak_at_s},
                              {"margin_bytes", result.memory.capacity_bytes - s.peak_memory_bytes},
                              {"parts_bytes", parts_json(s.parts_bytes)}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace foretrain
