#include "tools/fit/parameters.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "scenarios/catalogue.h"
#include "scenarios/yaml_reader.h"
#include "tools/cli/output_file.h"
#include "tools/output/human.h"

namespace foretrain {
namespace {

namespace fs = std::filesystem;

constexpr NumberRange any_positive{1e-9, 1e9};

/// A number of a catalogue file's line, between what stands before and behind it.
struct FileNumber {
  double value = 0;
  std::string unit;
  std::size_t begin = 0, end = 0;  ///< of the number in the file's text, without the unit
};

/// Of the line `key: 12.5unit   # comment`; nothing where the file has no such line.
std::optional<FileNumber> number_of(const std::string& text, const std::string& key) {
  for (std::size_t line = 0; line < text.size();) {
    const std::size_t line_end = std::min(text.find('\n', line), text.size());
    if (text.compare(line, key.size() + 1, key + ":") == 0) {
      const std::size_t begin = text.find_first_not_of(' ', line + key.size() + 1);
      char* stop = nullptr;
      const double value = std::strtod(text.c_str() + begin, &stop);
      const auto end = static_cast<std::size_t>(stop - text.c_str());
      const std::size_t unit_end = std::min(text.find_first_of(" #\n", end), text.size());
      return FileNumber{value, text.substr(end, unit_end - end), begin, end};
    }
    line = line_end + 1;
  }
  return std::nullopt;
}

fs::path file_of(const fs::path& catalogue, const std::string& shelf, const std::string& object) {
  return catalogue / shelf / (object + ".yaml");
}

std::string text_of(const fs::path& file) {
  FileText read = read_file(file);
  if (!read.text) throw InputError(fmt::format("{}: cannot be read: {}", shown(file.string()), read.error));
  return *read.text;
}

/// An entry of the list: a parameter of every file of its shelf that has or takes the key.
struct Entry {
  std::string shelf, object, key;
  std::string prior_of, most_of;  ///< keys of the file that prior and bound are parts of; empty: numbers themselves
  std::string unit;
  double prior = 0, width = 0, least = 0, most = 0, usual = 0;
};

Entry read_entry(const YamlNode& map, std::size_t index, Problems& problems) {
  MapReader reader(map, fmt::format("[{}]", index), problems);
  Entry entry;
  const std::string name = reader.text("name");
  const auto first = name.find('.');
  const auto last = name.rfind('.');
  if (first == last) {
    reader.refuse("name", "allowed: shelf, file and key with dots between, such as gpus.*.matmul");
  } else {
    entry.shelf = name.substr(0, first);
    entry.object = name.substr(first + 1, last - first - 1);
    entry.key = name.substr(last + 1);
  }
  entry.prior_of = reader.text("prior_of", std::string());
  entry.most_of = reader.text("most_of", std::string());
  entry.unit = reader.text("unit", std::string());
  entry.prior = reader.number("prior", any_positive);
  entry.width = reader.number("width", any_positive);
  entry.least = reader.number("least", {0, 1e9}, 0.0);
  entry.most = reader.number("most", any_positive, entry.most_of.empty() ? 1e9 : 1.0);
  entry.usual = reader.number("usual", {0, 1e9}, 0.0);
  reader.finish();
  return entry;
}

/// Where the file has the number, or the entry says what is usual.
std::optional<FitParameter> parameter_of(const Entry& entry, const std::string& object, const fs::path& catalogue) {
  const std::string text = text_of(file_of(catalogue, entry.shelf, object));
  const auto found = number_of(text, entry.key);
  if (!found && entry.usual <= 0) return std::nullopt;
  const auto part_of = [&](const std::string& key) {
    return key.empty() ? 1.0 : number_of(text, key).value_or(FileNumber{}).value;
  };
  FitParameter p{.shelf = entry.shelf, .object = object, .key = entry.key};
  p.unit = found && found->value > 0 ? found->unit : entry.unit;
  p.value = found && found->value > 0 ? found->value : entry.usual;
  p.prior = entry.prior * part_of(entry.prior_of);
  p.width = entry.width;
  p.least = entry.least;
  p.most = entry.most * part_of(entry.most_of);
  return p;
}

std::map<std::string, std::set<std::string>> objects_of(const std::vector<PublishedCase>& cases) {
  std::map<std::string, std::set<std::string>> objects;
  for (const PublishedCase& c : cases) {
    if (!c.scenario) continue;
    objects["gpus"].insert(c.scenario->cluster.gpu.name);
    objects["stacks"].insert(c.scenario->training.stack.name);
  }
  return objects;
}

}  // namespace

bool FitParameter::concerns(const Scenario& scenario) const {
  const bool experts = scenario.model.experts.has_value();
  if (shelf == "gpus") {
    const Precision precision = scenario.training.precision;
    if (key.ends_with("_fp8") && precision != Precision::fp8) return false;
    return scenario.cluster.gpu.name == object && (!key.ends_with("_fp4") || precision == Precision::fp4);
  }
  if (scenario.training.stack.name != object) return false;
  if (key == "tp_time") return scenario.plan.tp > 1;
  if (key == "ep_time") return scenario.plan.ep > 1;
  return experts || !(key == "expert_traffic" || key == "host_expert_layer");
}

std::string FitParameter::setting(double to) const {
  return fmt::format("{}.{}={:.6g}{}", shelf == "gpus" ? "cluster.gpu" : "training.stack", key, to, unit);
}

/// Fewer runs than this say nothing about a constant that would not be about them.
constexpr std::ptrdiff_t runs_least = 5;

std::vector<FitParameter> load_parameters(const fs::path& list, const fs::path& catalogue,
                                          const std::vector<PublishedCase>& cases) {
  Problems problems;
  const auto source = problems.source(list.string(), text_of(list), "");
  const auto root = parse_yaml(source, "a list of parameters", problems);
  std::vector<Entry> entries;
  if (root) {
    for (std::size_t i = 0; i < root->items.size(); ++i) entries.push_back(read_entry(root->items[i], i, problems));
  }
  problems.throw_if_any();
  const auto objects = objects_of(cases);
  std::vector<FitParameter> parameters;
  for (const Entry& entry : entries) {
    const auto shelf = objects.find(entry.shelf);
    if (shelf == objects.end())
      throw InputError(fmt::format("{}: no shelf '{}'; allowed: gpus, stacks", list.string(), shown(entry.shelf)));
    for (const std::string& object : shelf->second) {
      if (!matches_pattern(object, entry.object)) continue;
      auto parameter = parameter_of(entry, object, catalogue);
      if (!parameter) continue;
      // A later entry says more of the same parameter.
      std::erase_if(parameters, [&](const FitParameter& p) { return p.name() == parameter->name(); });
      parameters.push_back(std::move(*parameter));
    }
  }
  std::erase_if(parameters, [&](const FitParameter& p) {
    return std::count_if(cases.begin(), cases.end(),
                         [&](const PublishedCase& c) { return c.scenario && p.concerns(*c.scenario); }) < runs_least;
  });
  return parameters;
}

void write_parameters(const std::vector<FitParameter>& parameters, const std::vector<double>& values,
                      const fs::path& catalogue) {
  std::map<fs::path, std::string> texts;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const FitParameter& p = parameters[i];
    const fs::path file = file_of(catalogue, p.shelf, p.object);
    std::string& text = texts.try_emplace(file, text_of(file)).first->second;
    std::string number = significant(values[i]);
    if (const auto found = number_of(text, p.key)) {
      const std::size_t was = found->end + found->unit.size() - found->begin;
      std::string whole = number + p.unit;
      const bool comment = text[found->begin + was] == ' ';
      if (comment && whole.size() < was) whole.resize(was, ' ');  // comments stay in their column
      text.replace(found->begin, was, whole);
    } else {
      if (!text.ends_with('\n')) text += '\n';
      text += fmt::format("{}: {}{}\n", p.key, number, p.unit);
    }
  }
  for (const auto& [path, text] : texts) {
    OutputFile file(path);
    file.stream() << text;
    file.commit();
  }
}

}  // namespace foretrain
