#include "scenarios/published/scenario_of.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "scenarios/write_yaml.h"

namespace foretrain {
namespace {

/// Columns of words that some rule has to know, or the row's plan is not understood.
constexpr std::string_view word_columns[] = {"precision", "recompute", "pp_schedule", "model"};

/// A map that is filled key by key.
class Section {
 public:
  explicit Section(const SourcePlace& place) : map_{.kind = YamlNode::Kind::map, .place = place} {}

  void put(const std::string& key, const std::string& value) {
    if (value.empty()) return;
    put(key, YamlNode{.kind = YamlNode::Kind::scalar, .place = map_.place, .scalar = value});
  }
  void put(const std::string& key, YamlNode value) { map_.entries.push_back({key, map_.place, std::move(value)}); }
  [[nodiscard]] bool empty() const { return map_.entries.empty(); }
  [[nodiscard]] const YamlNode& map() const { return map_; }

 private:
  YamlNode map_;
};

/// The second word, if it is a number, else 0: of "FSDP 64 (ICI) x DP 2", 64.
std::int64_t number_behind(const std::string& text) {
  std::istringstream words(text);
  std::string first;
  std::int64_t number = 0;
  words >> first >> number;  // 0 where it is none
  return number;
}

class ScenarioWriter {
 public:
  ScenarioWriter(const PublishedRun& run, const YamlNode& rules, const SourcePlace& place)
      : run_(run), rules_(rules), place_(place) {}

  std::string yaml() const {
    Section scenario(place_);
    scenario.put("model", model());
    scenario.put("cluster", cluster());
    scenario.put("training", training());
    scenario.put("parallelism", parallelism());
    YamlNode whole = scenario.map();
    overlay(whole, rules_);
    return write_yaml(whole);
  }

  /// What has to be known and is not.
  std::vector<std::string> missing() const {
    std::vector<std::string> columns = {"n_gpus", "seq", "tp", "pp", "mbs", "gbs"};
    if (!catalogued()) columns.insert(columns.end(), {"layers", "hidden", "heads", "vocab"});
    std::erase_if(columns, [&](const std::string& column) { return !run_.text(column).empty(); });
    return columns;
  }

 private:
  /// The rules name a model of the catalogue.
  bool catalogued() const {
    const YamlNode* model = rules_.find("model");
    return model != nullptr && model->find("use") != nullptr;
  }

  YamlNode model() const {
    Section model(place_);
    model.put("layers", run_.text("layers"));  // of a catalogued one, too: proxies have fewer
    if (catalogued()) return model.map();
    model.put("hidden", run_.text("hidden"));
    model.put("heads", run_.text("heads"));
    model.put("kv_heads", run_.text("kv_heads"));
    model.put("ffn_hidden", run_.text("ffn_hidden"));
    model.put("vocabulary", run_.text("vocab"));
    Section experts(place_);
    experts.put("count", run_.text("experts"));
    experts.put("topk", run_.text("topk"));
    if (!experts.empty()) model.put("experts", experts.map());
    return model.map();
  }

  YamlNode cluster() const {
    Section cluster(place_);
    cluster.put("gpus", run_.text("n_gpus"));
    return cluster.map();
  }

  YamlNode training() const {
    Section training(place_);
    training.put("sequence_length", run_.text("seq"));
    training.put("global_batch", run_.text("gbs"));
    training.put("microbatch", run_.text("mbs"));
    return training.map();
  }

  YamlNode parallelism() const {
    Section plan(place_);
    for (const char* axis : {"tp", "cp", "pp", "dp", "ep"}) plan.put(axis, run_.text(axis));
    const std::string& sp = run_.text("sp");
    if (!sp.empty()) plan.put("sequence_parallel", sp == "0" ? "false" : "true");
    put_sharding(plan);
    if (run_.whole("vpp").value_or(1) > 1 && run_.whole("pp").value_or(1) > 1) {
      Section schedule(place_);
      schedule.put("virtual_stages", run_.text("vpp"));
      plan.put("schedule", schedule.map());
    }
    return plan.map();
  }

  /// "1 (distributed optimizer)", "1 (zero1 group 8)", "FSDP 64 (ICI) x DP 2 (DCN)", "FSDP2 full shard".
  void put_sharding(Section& plan) const {
    const std::string& text = run_.text("zero_stage/fsdp");
    if (text.empty()) return;
    const bool fsdp = text.starts_with("FSDP");
    plan.put("zero", fsdp ? std::string("3") : text.substr(0, 1));
    const auto group = text.find("group ");
    std::int64_t shard = fsdp ? number_behind(text) : 0;
    if (group != std::string::npos) shard = number_behind(text.substr(group));
    const std::int64_t replicas =
        run_.whole("n_gpus").value_or(1) /
        std::max<std::int64_t>(1, run_.whole("tp").value_or(1) * run_.whole("pp").value_or(1));
    if (shard == 0 || shard >= replicas) return;
    Section hsdp(place_);
    hsdp.put("shard", fmt::format("{}", shard));
    plan.put("hsdp", hsdp.map());
  }

  const PublishedRun& run_;
  const YamlNode& rules_;
  const SourcePlace& place_;
};

/// The first column of words whose word no rule knew, or that no rule made a cluster of.
std::string unknown_word(const PublishedRun& run, const YamlNode& laid, const std::vector<std::string>& known) {
  const YamlNode* cluster = laid.find("cluster");
  if (cluster == nullptr || cluster->find("use") == nullptr)
    return fmt::format("no rule makes a cluster of its system and GPU: {}, {}", run.text("system"), run.text("gpu"));
  for (const std::string_view column : word_columns) {
    if (!run.text(column).empty() && std::find(known.begin(), known.end(), column) == known.end())
      return fmt::format("no rule knows its {}: {}", column, run.text(column));
  }
  return {};
}

}  // namespace

PublishedScenario scenario_of(const PublishedRun& run, const PublishedRules& rules) {
  Problems problems;
  const SourcePlace place{.source = problems.source(run.id(), "", ""), .at = {}};
  PublishedScenario s{.run = run};
  YamlNode laid{.kind = YamlNode::Kind::map, .place = place};
  std::vector<std::string> known;
  for (const PublishedRule& rule : rules) {
    if (!rule.matches(s.run)) continue;
    for (const auto& condition : rule.when) known.push_back(condition.column);
    for (const auto& [column, value] : rule.columns) s.run.set(column, value);
    if (rule.scenario) overlay(laid, *rule.scenario);
    if (rule.memory) s.memory = rule.memory;
    if (!rule.why.empty()) s.reasons.push_back(rule.why);
    s.apart = s.apart || rule.apart;
    if (s.skipped.empty()) s.skipped = rule.skip;
  }
  const std::string& use = run.text("use");
  if (s.skipped.empty() && use.starts_with("no") && !s.apart) s.skipped = use;
  if (s.skipped.empty()) s.skipped = unknown_word(run, laid, known);
  if (!s.skipped.empty()) return s;
  const ScenarioWriter writer(s.run, laid, place);
  if (const auto missing = writer.missing(); !missing.empty()) {
    s.skipped = fmt::format("missing {}", fmt::join(missing, ", "));
  } else {
    s.yaml = writer.yaml();
  }
  return s;
}

}  // namespace foretrain
