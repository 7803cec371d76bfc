// The section `faults`: a list of what is broken, slow or busy, and the fabric and the paces that it makes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "scenarios/sections.h"

namespace foretrain {
namespace {

constexpr std::array<std::string_view, 5> subjects = {"link", "nic", "gpu", "tier", "jitter"};
constexpr NumberRange slowdown_range{1, 1000};
constexpr NumberRange bandwidth_range{1e-6, 1};
constexpr NumberRange background_range{0, 0.99};
constexpr NumberRange jitter_range{0, 0.5};

/// A name in a fault: where it stands, for what the fabric says about it.
struct Named {
  SourcePlace place;
  std::string path;
};

class FaultReader {
 public:
  FaultReader(const YamlNode& list, Problems& problems) : problems_(problems) {
    if (list.kind == YamlNode::Kind::null) return;
    if (list.kind != YamlNode::Kind::list) {
      problems_.add(list.place, "faults",
                    fmt::format("found {}; allowed: a list of faults, such as [{{nic: node0/nic3, bandwidth: 0.5}}]",
                                described(list)));
      return;
    }
    for (std::size_t i = 0; i < list.items.size(); ++i) read_one(list.items[i], fmt::format("faults[{}]", i));
  }

  void check_names(const Fabric& fabric) {
    const FaultReading read = resolve(fabric, faults_.fabric);
    for (const FaultReading::Mistake& mistake : read.mistakes) {
      const Named& at = fabric_names_[mistake.fault];
      const FabricFault& fault = faults_.fabric[mistake.fault];
      if (mistake.name.empty()) {
        problems_.add(at.place, at.path,
                      fmt::format("no cable joins the two ends of '{}'{}; allowed: {}", shown(fault.name),
                                  suggestion(fault.name, mistake.known), some_of(mistake.known)));
      } else {
        unknown(at, mistake.name, mistake.known);
      }
    }
    for (std::size_t i = 0; i < faults_.gpus.size(); ++i) {
      if (find_gpu(fabric, faults_.gpus[i].gpu)) continue;
      unknown(gpu_names_[i], faults_.gpus[i].gpu, names_of(fabric, VertexKind::gpu));
    }
    if (!read.mistakes.empty() || faults_.fabric.empty()) return;
    try {
      static_cast<void>(with_faults(fabric, read.remaining));
    } catch (const std::invalid_argument& partition) {
      problems_.add(fabric_names_.front().place, "faults",
                    fmt::format("{}; allowed: faults that leave every GPU a way to every other", partition.what()));
    }
  }

  [[nodiscard]] Faults take() { return std::move(faults_); }
  [[nodiscard]] bool any() const { return faults_ != Faults{}; }

 private:
  static std::string some_of(const std::vector<std::string>& names) {
    constexpr std::size_t most = 6;
    const std::vector<std::string> first(names.begin(),
                                         names.begin() + static_cast<std::ptrdiff_t>(std::min(most, names.size())));
    const std::string more = names.size() > most ? fmt::format(" and {} more", names.size() - most) : "";
    return fmt::format("{}{}", fmt::join(first, ", "), more);
  }

  void unknown(const Named& at, const std::string& name, const std::vector<std::string>& known) {
    problems_.add(at.place, at.path,
                  fmt::format("no '{}' in this cluster's fabric{}; allowed: {}", shown(name), suggestion(name, known),
                              some_of(known)));
  }

  void read_one(const YamlNode& item, const std::string& path) {
    MapReader reader(item, path, problems_);
    std::vector<std::string_view> given;
    for (const std::string_view subject : subjects) {
      if (reader.given(subject)) given.push_back(subject);
    }
    if (given.size() > 1) {
      reader.refuse(given[1],
                    fmt::format("stands beside {}; allowed: a fault of one thing; give two faults", given[0]));
      return;
    }
    const std::string_view subject = given.empty() ? std::string_view() : given[0];
    if (subject == "link" || subject == "nic") {
      read_cable(reader, item, subject);
    } else if (subject == "gpu") {
      read_gpu_slowdown(reader, item);
    } else if (subject == "tier") {
      read_background(reader, item);
    } else if (subject == "jitter") {
      read_jitter(reader);
    } else {
      no_subject(reader, item, path);
      return;
    }
    reader.finish();
  }

  void no_subject(MapReader& reader, const YamlNode& item, const std::string& path) {
    if (item.kind != YamlNode::Kind::map) {
      if (item.kind == YamlNode::Kind::null) problems_.add(item.place, path, "found nothing; allowed: a map of keys");
      return;
    }
    // Known to `finish`, so that a slip of the pen is told as one.
    for (const std::string_view subject : subjects) reader.child(subject);
    for (const std::string_view key : {"state", "bandwidth", "slowdown", "background", "seed"}) reader.child(key);
    reader.finish();
    if (problems_.any_bad(path)) return;
    problems_.add(item.place, path,
                  fmt::format("does not say what is at fault; allowed: one of {}", fmt::join(subjects, ", ")));
  }

  Named place_of(MapReader& reader, const YamlNode& item, std::string_view key) {
    const YamlNode* value = item.find(key);
    return {value == nullptr ? item.place : value->place, dotted(reader.path(), key)};
  }

  void read_cable(MapReader& reader, const YamlNode& item, std::string_view subject) {
    const std::string name = reader.text(subject);
    double remaining = 1;
    if (reader.given("state") == reader.given("bandwidth")) {
      reader.child("state");
      reader.child("bandwidth");
      reader.refuse(subject, reader.given("state") ? "state and bandwidth exclude each other; allowed: one of them"
                                                   : "how is it at fault?; allowed: `state: down`, or the part of its "
                                                     "bandwidth that is left, as `bandwidth: 0.5`");
      return;
    }
    if (reader.given("state")) {
      enum class State : std::uint8_t { down };
      static_cast<void>(reader.choice<State>("state", {{"down", State::down}}));
      remaining = 0;
    } else {
      remaining = reader.number("bandwidth", bandwidth_range);
    }
    if (problems_.any_bad(reader.path())) return;
    const auto kind = subject == "nic" ? FabricFault::Kind::nic : FabricFault::Kind::link;
    faults_.fabric.push_back({kind, name, remaining});
    fabric_names_.push_back(place_of(reader, item, subject));
  }

  void read_background(MapReader& reader, const YamlNode& item) {
    const std::string name = reader.text("tier");
    const double background = reader.number("background", background_range);
    if (problems_.any_bad(reader.path())) return;
    faults_.fabric.push_back({FabricFault::Kind::tier, name, 1 - background});
    fabric_names_.push_back(place_of(reader, item, "tier"));
  }

  void read_gpu_slowdown(MapReader& reader, const YamlNode& item) {
    const std::string name = reader.text("gpu");
    const double slowdown = reader.number("slowdown", slowdown_range);
    if (problems_.any_bad(reader.path())) return;
    faults_.gpus.push_back({name, slowdown});
    gpu_names_.push_back(place_of(reader, item, "gpu"));
  }

  void read_jitter(MapReader& reader) {
    if (jitter_seen_) reader.refuse("jitter", "stands there twice; allowed: once, it is for all GPUs");
    jitter_seen_ = true;
    faults_.jitter = reader.number("jitter", jitter_range);
    faults_.jitter_seed = static_cast<std::uint64_t>(reader.integer("seed", {0, 999'999'999'999'999'999}, 1));
    if (faults_.jitter == 0) faults_.jitter_seed = Faults{}.jitter_seed;  // no spread: nothing is drawn
  }

  Problems& problems_;
  Faults faults_;
  std::vector<Named> fabric_names_, gpu_names_;  ///< of `faults_.fabric` and `faults_.gpus`
  bool jitter_seen_ = false;
};

std::uint64_t mixed(std::uint64_t x) {  // splitmix64's finaliser (Steele, Lea, Flood 2014)
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// A number in (0, 1] that depends on the seed, the GPU and the draw alone: GPU 3 keeps its pace in a larger cluster.
double uniform(std::uint64_t seed, std::size_t gpu, std::uint64_t draw) {
  constexpr std::uint64_t golden = 0x9e3779b97f4a7c15ULL;
  const std::uint64_t bits = mixed(mixed(seed + golden) + golden * (2 * gpu + draw + 1));
  return static_cast<double>((bits >> 11) + 1) * 0x1p-53;
}

/// Standard normal, by Box and Muller (1958).
double normal(std::uint64_t seed, std::size_t gpu) {
  return std::sqrt(-2 * std::log(uniform(seed, gpu, 0))) * std::cos(2 * std::numbers::pi * uniform(seed, gpu, 1));
}

}  // namespace

Faults read_faults(const YamlNode* list, const Scenario& scenario, Problems& problems) {
  if (list == nullptr) return {};
  FaultReader reader(*list, problems);
  const bool cluster_good = scenario.cluster.max_gpus > 0 && scenario.gpus > 0 && !problems.any_bad("cluster");
  if (cluster_good && reader.any()) {
    try {
      reader.check_names(build_fabric(scenario.cluster, scenario.gpus));
    } catch (const std::invalid_argument&) {
      // No such fabric: told where it is built.
    }
  }
  return reader.take();
}

Fabric build_fabric(const Scenario& scenario) {
  Fabric fabric = build_fabric(scenario.cluster, scenario.gpus);
  if (scenario.faults.fabric.empty()) return fabric;
  const FaultReading read = resolve(fabric, scenario.faults.fabric);
  if (!read.mistakes.empty()) {
    throw std::invalid_argument(
        fmt::format("fault of '{}': not in this fabric", scenario.faults.fabric[read.mistakes.front().fault].name));
  }
  return with_faults(fabric, read.remaining);
}

std::vector<Pace> gpu_paces(const Faults& faults, const Fabric& fabric) {
  if (faults.gpus.empty() && faults.jitter == 0) return {};
  std::vector<double> factor(fabric.gpu_count(), 1.0);
  for (std::size_t gpu = 0; gpu < factor.size() && faults.jitter > 0; ++gpu) {
    factor[gpu] = std::exp(faults.jitter * normal(faults.jitter_seed, gpu));
  }
  for (const GpuSlowdown& slow : faults.gpus) {
    const std::optional<GpuId> gpu = find_gpu(fabric, slow.gpu);
    if (!gpu) throw std::invalid_argument(fmt::format("fault of '{}': not in this fabric", slow.gpu));
    factor[gpu->index()] *= slow.factor;
  }
  std::vector<Pace> paces;
  paces.reserve(factor.size());
  for (const double f : factor) paces.push_back(paced(std::min(f, 4000.0)));
  return paces;
}

}  // namespace foretrain
