// The dialects of config.json, one a `model_type`: which keys a family uses, and what holds where they are absent. From
// transformers' src/transformers/models/*/configuration_*.py and modeling_*.py, and DeepSeek's and Moonshot's own files
// beside their weights.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/yaml_reader.h"
#include "workloads/model.h"

namespace foretrain {

/// The keys of one config.json. A key may have several names; the first given one counts, and null is as if absent.
class HfKeys {
 public:
  using Names = std::initializer_list<std::string_view>;

  HfKeys(const YamlNode& map, std::vector<std::string>& notes, Problems& problems);

  [[nodiscard]] bool given(Names names) const { return found(names) != nullptr; }
  /// Must be there.
  [[nodiscard]] std::int64_t integer(Names names, IntegerRange range) const;
  /// `usual` where it is absent, with a note unless it is what every file of the family leaves out.
  [[nodiscard]] std::int64_t integer(Names names, IntegerRange range, std::int64_t usual, bool noted = true) const;
  [[nodiscard]] bool boolean(Names names, bool usual) const;
  [[nodiscard]] std::string text(Names names) const;
  /// Above 0; of something that is no number: false, with a mistake.
  [[nodiscard]] bool positive(std::string_view name) const;
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view name, IntegerRange range) const;
  [[nodiscard]] const YamlNode* list(std::string_view name) const;
  /// The first of `architectures`; empty if there is none.
  [[nodiscard]] std::string architecture() const;

  void refuse(std::string_view key, const std::string& message) const;
  void note(std::string text) const { notes_.push_back(std::move(text)); }

 private:
  [[nodiscard]] const std::string_view* found(Names names) const;

  const YamlNode& map_;
  std::vector<std::string>& notes_;
  Problems& problems_;
};

struct HfDialect {
  std::string_view model_type;
  std::string_view architecture;  ///< the class that reads its weights
  Model (*read)(const HfKeys& keys);
};
[[nodiscard]] std::span<const HfDialect> hf_dialects();
/// Why a known type is none of ours ("is an encoder with a decoder"); empty for a type that is just unknown.
[[nodiscard]] std::string hf_refusal_of(std::string_view model_type);

}  // namespace foretrain
