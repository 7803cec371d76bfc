// Slurm's topology.conf: a tree of switches over node lists (topology/tree), or blocks of nodes (topology/block).
// Source of the format: the Slurm manual, topology.conf(5), and hostlist expressions of scontrol(1).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <unordered_map>

#include "scenarios/problems.h"
#include "tools/import/import.h"
#include "tools/import/lines.h"
#include "tools/import/network_draft.h"

namespace foretrain {
namespace {

/// Names that one file may list in all; a bracket of nines stays harmless.
constexpr std::size_t names_most = std::size_t{1} << 16;
constexpr std::size_t digits_most = 9;

/// "n[01-03,7]-ib,login" is n01-ib, n02-ib, n03-ib, n7-ib, login.
class HostList {
 public:
  HostList(const InputText& input, std::size_t& budget) : input_(input), budget_(budget) {}

  std::vector<std::string> expand(std::string_view text, std::size_t offset) {
    std::vector<std::string> all;
    std::size_t begin = 0;
    bool inside = false;
    for (std::size_t i = 0; i <= text.size(); ++i) {
      if (i < text.size() && text[i] == '[') {
        if (inside) input_.fail(offset + i, "a '[' inside brackets; allowed: numbers and ranges");
        inside = true;
      } else if (i < text.size() && text[i] == ']') {
        if (!inside) input_.fail(offset + i, "a ']' without '['; allowed: brackets in pairs");
        inside = false;
      } else if (i == text.size() || (text[i] == ',' && !inside)) {
        if (inside) input_.fail(offset + i, "a '[' without ']'; allowed: brackets in pairs");
        expand_one(text.substr(begin, i - begin), offset + begin, all);
        begin = i + 1;
      }
    }
    return all;
  }

 private:
  void expand_one(std::string_view text, std::size_t offset, std::vector<std::string>& all) {
    if (text.empty()) input_.fail(offset, "an empty name; allowed: names with a comma between");
    std::vector<std::string> made{""};
    while (!text.empty()) {
      const auto open = text.find('[');
      const std::string_view plain = text.substr(0, open);
      for (std::string& name : made) name += plain;
      if (open == std::string_view::npos) break;
      const auto close = text.find(']', open);
      const std::vector<std::string> numbers = ranges(text.substr(open + 1, close - open - 1), offset + open + 1);
      std::vector<std::string> longer;
      if (made.size() * numbers.size() > budget_) too_many(offset);
      for (const std::string& name : made) {
        for (const std::string& number : numbers) longer.push_back(name + number);
      }
      made = std::move(longer);
      offset += close + 1;
      text.remove_prefix(close + 1);
    }
    if (made.size() > budget_) too_many(offset);
    budget_ -= made.size();
    for (std::string& name : made) {
      input_.check_words(offset, "name", name);
      all.push_back(std::move(name));
    }
  }

  [[noreturn]] void too_many(std::size_t offset) const {
    input_.fail(offset, fmt::format("more than {} names in the file; allowed: up to that", names_most));
  }

  static std::uint32_t number(std::string_view text, std::uint32_t otherwise) {
    return text.size() <= digits_most ? whole_number(text, ~std::uint32_t{0}).value_or(otherwise) : otherwise;
  }

  /// "01-03,7" is 01, 02, 03, 7: numbers keep the width of the first.
  std::vector<std::string> ranges(std::string_view text, std::size_t offset) const {
    std::vector<std::string> all;
    while (true) {
      const auto comma = std::min(text.find(','), text.size());
      const std::string_view part = text.substr(0, comma);
      const auto dash = part.find('-');
      const std::string_view low = part.substr(0, dash);
      const std::string_view high = dash == std::string_view::npos ? low : part.substr(dash + 1);
      const std::uint32_t first = number(low, 1);
      const std::uint32_t last = number(high, 0);
      if (first > last) {
        input_.fail(offset, fmt::format("found '{}'; allowed: a number or a range such as 01-16, up to {} digits",
                                        shown(part), digits_most));
      }
      if (last - first >= budget_ - std::min(all.size(), budget_)) too_many(offset);
      for (std::uint32_t n = first; n <= last; ++n) all.push_back(fmt::format("{:0{}}", n, low.size()));
      if (comma == text.size()) return all;
      offset += comma + 1;
      text.remove_prefix(comma + 1);
    }
  }

  const InputText& input_;
  std::size_t& budget_;
};

struct SwitchLine {
  std::string name;
  std::vector<std::string> switches, nodes;
  std::size_t offset = 0;
  std::optional<std::size_t> parent = std::nullopt;  ///< position of the line
};

class Reader {
 public:
  Reader(const InputText& input, const ImportOptions& options) : input_(input), options_(options), draft_(input) {}

  Imported read() {
    Lines lines(input_.text());
    while (lines.next()) read_line(lines);
    if (lines_.empty()) {
      input_.fail(0, "no switch and no block; allowed: lines SwitchName=... or BlockName=... of a topology.conf");
    }
    std::unordered_map<std::string, std::size_t> by_name;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      if (!by_name.emplace(lines_[i].name, i).second) {
        input_.fail(lines_[i].offset, fmt::format("'{}' stands there twice; allowed: once", shown(lines_[i].name)));
      }
    }
    find_parents(by_name);
    check_tree();
    return build();
  }

 private:
  enum class Form : std::uint8_t { tree, block };

  static std::string lower(std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return out;
  }

  void read_line(const Lines& lines) {
    std::string_view rest = lines.line().substr(0, lines.line().find('#'));
    SwitchLine made{.offset = lines.offset()};
    std::optional<Form> form;
    bool any = false;
    bool sizes = false;
    for (std::string_view word = take_word(rest); !word.empty(); word = take_word(rest)) {
      any = true;
      const std::size_t offset = lines.offset() + static_cast<std::size_t>(word.data() - lines.line().data());
      const auto equals = word.find('=');
      if (equals == std::string_view::npos || equals + 1 == word.size()) {
        input_.fail(offset,
                    fmt::format("found '{}'; allowed: Key=value, such as SwitchName=s0 Nodes=n[0-15]", shown(word)));
      }
      const std::string key = lower(word.substr(0, equals));
      const std::string_view value = word.substr(equals + 1);
      const std::size_t at = offset + equals + 1;
      if (key == "switchname" || key == "blockname") {
        if (form) input_.fail(offset, "a second name on the line; allowed: one");
        form = key == "switchname" ? Form::tree : Form::block;
        input_.check_words(at, "name", value);
        made.name = value;
      } else if (key == "switches") {
        made.switches = HostList(input_, budget_).expand(value, at);
      } else if (key == "nodes") {
        made.nodes = HostList(input_, budget_).expand(value, at);
      } else if (key == "blocksizes") {
        sizes = true;
      } else if (key != "linkspeed") {  // Slurm itself ignores LinkSpeed
        input_.fail(offset, fmt::format("unknown key '{}'; allowed: SwitchName, Switches, Nodes, LinkSpeed, BlockName, "
                                        "BlockSizes",
                                        shown(word.substr(0, equals))));
      }
    }
    if (!any || (sizes && !form)) return;
    keep(std::move(made), form);
  }

  void keep(SwitchLine made, std::optional<Form> form) {
    if (!form) input_.fail(made.offset, "a line without a name; allowed: SwitchName=... or BlockName=... first");
    if (form_ && *form_ != *form) input_.fail(made.offset, "switches and blocks in one file; allowed: either");
    form_ = form;
    if (made.switches.empty() == made.nodes.empty() || (form == Form::block && !made.switches.empty())) {
      input_.fail(made.offset, fmt::format("'{}' has {}; allowed: {}", shown(made.name),
                                           made.nodes.empty() ? "no nodes" : "switches and nodes",
                                           form == Form::block ? "Nodes=" : "either Switches= or Nodes="));
    }
    lines_.push_back(std::move(made));
  }

  void find_parents(const std::unordered_map<std::string, std::size_t>& by_name) {
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      for (const std::string& name : lines_[i].switches) {
        const auto below = by_name.find(name);
        if (below == by_name.end()) {
          input_.fail(lines_[i].offset,
                      fmt::format("switch '{}' of '{}' has no line of its own; allowed: a SwitchName of "
                                  "the file",
                                  shown(name), shown(lines_[i].name)));
        }
        std::optional<std::size_t>& parent = lines_[below->second].parent;
        if (parent) {
          input_.fail(lines_[i].offset, fmt::format("switch '{}' is under '{}' and '{}'; allowed: one switch above it",
                                                    shown(name), shown(lines_[*parent].name), shown(lines_[i].name)));
        }
        parent = i;
      }
    }
  }

  /// Every way up ends: each line has one parent, so a cycle is a way that comes back.
  void check_tree() {
    std::vector<std::uint32_t> seen_from(lines_.size(), 0);
    for (std::size_t start = 0; start < lines_.size(); ++start) {
      const auto walk = static_cast<std::uint32_t>(start + 1);
      for (std::optional<std::size_t> at = start; at && seen_from[*at] != walk && seen_from[*at] == 0;
           at = lines_[*at].parent) {
        seen_from[*at] = walk;
        const std::optional<std::size_t> up = lines_[*at].parent;
        if (up && seen_from[*up] == walk) {
          input_.fail(lines_[*at].offset,
                      fmt::format("the switches above '{}' lead back to it; allowed: a tree", shown(lines_[*at].name)));
        }
      }
    }
  }

  Imported build() {
    const GpuFacts facts = gpu_facts(options_, "", ignored_);
    const std::uint32_t nics = options_.nics_per_node.value_or(options_.gpus_per_node.value_or(8));
    std::vector<NetworkDraft::Point> points;
    points.reserve(lines_.size());
    for (const SwitchLine& line : lines_) points.push_back(draft_.add_switch(line.name, line.offset));
    std::vector<double> beneath(lines_.size(), 0);  // bandwidth of the nodes under it, in NICs
    std::unordered_map<std::string, std::size_t> leaf_of;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      for (const std::string& node : lines_[i].nodes) {
        const auto [entry, is_new] = leaf_of.try_emplace(node, i);
        if (!is_new) {
          input_.fail(lines_[i].offset, fmt::format("node '{}' is under '{}' and '{}'; allowed: one", shown(node),
                                                    shown(lines_[entry->second].name), shown(lines_[i].name)));
        }
        const NetworkDraft::Host host = draft_.host(node);
        for (std::uint32_t n = 0; n < nics; ++n) {
          draft_.connect(draft_.add_nic(host, fmt::format("nic{}", n), lines_[i].offset), points[i], facts.nic, 1,
                         lines_[i].offset);
        }
        beneath[i] += nics;
      }
    }
    sum_upwards(beneath);
    std::vector<std::string> notes;
    add_uplinks(facts, points, beneath, notes);
    notes.push_back(
        fmt::format("assumed: {} NICs a node (--nics-per-node), {} each (--nic)", nics, to_text(facts.nic)));
    return draft_.finish(options_, std::move(notes));
  }

  /// Adds to each switch what is beneath those under it, from the leaves up.
  void sum_upwards(std::vector<double>& beneath) const {
    std::vector<std::size_t> waiting(lines_.size(), 0);
    for (const SwitchLine& line : lines_) waiting[line.parent.value_or(0)] += line.parent ? 1 : 0;
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      if (waiting[i] == 0) ready.push_back(i);
    }
    for (std::size_t head = 0; head < ready.size(); ++head) {
      const std::optional<std::size_t> parent = lines_[ready[head]].parent;
      if (!parent) continue;
      beneath[*parent] += beneath[ready[head]];
      if (--waiting[*parent] == 0) ready.push_back(*parent);
    }
  }

  void add_uplinks(const GpuFacts& facts, const std::vector<NetworkDraft::Point>& points,
                   const std::vector<double>& beneath, std::vector<std::string>& notes) {
    const auto uplink = [&](std::size_t i, NetworkDraft::Point above) {
      if (beneath[i] == 0) return;
      draft_.connect(points[i], above, scaled(facts.nic, beneath[i] / options_.oversubscription), 1, lines_[i].offset);
    };
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      if (lines_[i].parent) uplink(i, points[*lines_[i].parent]);
    }
    if (*form_ == Form::block && lines_.size() > 1) {
      const NetworkDraft::Point spine = draft_.add_switch("above all blocks", 0);
      for (std::size_t i = 0; i < lines_.size(); ++i) uplink(i, spine);
      notes.emplace_back(
          "assumed: a block is a leaf switch, and one switch is above all blocks; BlockSizes is about scheduling only");
    }
    notes.push_back(
        fmt::format("assumed: a switch's uplink, in one cable, carries what the nodes under it send, over {} "
                    "(--oversubscription)",
                    options_.oversubscription));
  }

  const InputText& input_;
  const ImportOptions& options_;
  NetworkDraft draft_;
  std::vector<SwitchLine> lines_;
  std::optional<Form> form_;
  std::size_t budget_ = names_most;
  std::vector<std::string> ignored_;  ///< notes that NetworkDraft makes again
};

}  // namespace

Imported read_slurm_topology(const InputText& input, const ImportOptions& options) {
  return Reader(input, options).read();
}

}  // namespace foretrain
