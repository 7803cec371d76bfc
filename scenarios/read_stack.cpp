#include "scenarios/sections.h"

namespace foretrain {
namespace {

constexpr NumberRange over_the_usual{0.01, 100};  // of factors whose usual value is 1
constexpr NumberRange lengthening{1, 100};

std::optional<YamlNode> section(MapReader& reader, std::string_view key) {
  const YamlNode* map = reader.child(key);
  return map == nullptr ? std::nullopt : std::optional(*map);
}

}  // namespace

StackSection read_stack(const YamlNode& map, Problems& problems) {
  MapReader reader(map, "training.stack", problems);
  StackSection read;
  Stack& s = read.stack;
  s.name = reader.text("name", "custom");
  s.framework = reader.choice<Framework>("framework", words_of<Framework>(all_frameworks));
  s.attention_rate = reader.number("attention_rate", over_the_usual, s.attention_rate);
  s.memory_traffic = reader.number("memory_traffic", over_the_usual, s.memory_traffic);
  s.expert_traffic = reader.number("expert_traffic", over_the_usual, s.expert_traffic);
  s.overhead = reader.number("overhead", lengthening, s.overhead);
  s.tp_time = reader.number("tp_time", over_the_usual, s.tp_time);
  s.ep_time = reader.number("ep_time", over_the_usual, s.ep_time);
  s.host_layer = reader.duration("host_layer", s.host_layer);
  s.host_expert_layer = reader.duration("host_expert_layer", s.host_expert_layer);
  s.late_output_gradient = reader.boolean("late_output_gradient", s.late_output_gradient);
  s.prunes_recompute = reader.boolean("prunes_recompute", s.prunes_recompute);
  s.scattered_messages = reader.boolean("scattered_messages", s.scattered_messages);
  s.owner_broadcast = reader.duration("owner_broadcast", s.owner_broadcast);
  s.data_channels = reader.integer("data_channels", {0, 1024}, s.data_channels);
  read.training = section(reader, "training");
  read.parallelism = section(reader, "parallelism");
  reader.finish();
  return read;
}

}  // namespace foretrain
