// ibnetdiscover: records of switches and HCAs, each with its ports and who is at their other end; the port list of
// `ibnetdiscover -p`; and the network files of ibsim, the same grammar with free names and without speeds.
// Source of the grammar: infiniband-diags, ibnetdiscover(8); ibsim, net-examples.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "scenarios/problems.h"
#include "tools/import/import.h"
#include "tools/import/lines.h"
#include "tools/import/network_draft.h"

namespace foretrain {
namespace {

constexpr std::uint32_t port_most = 1024;
constexpr std::uint32_t lid_most = 0xbfff;

struct LaneSpeed {
  std::string_view name;
  double gigabits;  ///< data rate of a lane
};
/// InfiniBand Architecture Specification, volume 2: signal rate times coding. 8b/10b up to QDR (2.5, 5, 10 Gb/s),
/// 64b/66b from FDR10 on (10.3125, 14.0625, 25.78125 Gb/s); HDR and later are quoted by what is left after FEC.
constexpr std::array lane_speeds = {LaneSpeed{"SDR", 2},
                                    LaneSpeed{"DDR", 4},
                                    LaneSpeed{"QDR", 8},
                                    LaneSpeed{"FDR10", 10},
                                    LaneSpeed{"FDR", 14.0625 * 64 / 66},
                                    LaneSpeed{"EDR", 25},
                                    LaneSpeed{"HDR", 50},
                                    LaneSpeed{"NDR", 100},
                                    LaneSpeed{"XDR", 200}};

std::optional<Bandwidth> port_rate(std::uint32_t width, std::string_view speed) {
  const auto* const found =
      std::find_if(lane_speeds.begin(), lane_speeds.end(), [&](const LaneSpeed& it) { return it.name == speed; });
  if (found == lane_speeds.end()) return std::nullopt;
  return gigabits_per_second(width * found->gigabits);
}

std::string speed_words() {
  std::string words;
  for (const LaneSpeed& it : lane_speeds) words += (words.empty() ? "" : ", ") + std::string(it.name);
  return words;
}

bool known_width(std::uint32_t width) { return width == 1 || width == 2 || width == 4 || width == 8 || width == 12; }

/// "node-017 HCA-6" is the host node-017; nothing when the text names only a product.
struct HcaName {
  std::optional<std::string_view> host;
  std::string_view device;
};
HcaName split_hca(std::string_view description) {
  std::string_view rest = description;
  const std::string_view host = take_word(rest);
  const std::string_view device = take_word(rest);
  if (device.empty()) return {host, "hca"};
  static constexpr std::array prefixes = {"HCA-", "mlx", "ib", "hfi", "qib", "roce", "cxi", "bnxt", "efa", "opa"};
  const bool known =
      std::any_of(prefixes.begin(), prefixes.end(), [&](const char* it) { return device.starts_with(it); });
  if (!known || !trimmed(rest).empty()) return {std::nullopt, "hca"};
  return {host, device};
}

bool aggregation_node(std::string_view description) {
  return description.find("Aggregation Node") != std::string::npos;
}

/// "MF0;leaf-000:MQM9701/U1" is leaf-000:MQM9701/U1.
std::string_view switch_name(std::string_view description) {
  const auto mark = description.find(';');
  return mark == std::string_view::npos || mark + 1 == description.size() ? description : description.substr(mark + 1);
}

/// What both dialects fill: nodes by id, and the two ends of cables as each side tells them.
class Discovery {
 public:
  Discovery(const InputText& input, const ImportOptions& options) : input_(input), options_(options), draft_(input) {}

  enum class Kind : std::uint8_t { network_switch, hca };
  struct PortLine {
    std::size_t node = 0;
    std::uint32_t port = 0;
    std::string remote;
    std::uint32_t remote_port = 0;
    std::optional<Bandwidth> rate;
    std::uint32_t width = 4;
    bool remote_aggregates = false;
    std::size_t offset = 0;
  };

  std::size_t add_node(Kind kind, std::string_view id, std::string_view description, std::size_t offset) {
    const auto [entry, is_new] = index_.try_emplace(std::string(id), nodes_.size());
    if (!is_new) input_.fail(offset, fmt::format("a second record of '{}'; allowed: one", shown(id)));
    nodes_.push_back({kind, std::string(id), std::string(description), offset});
    return entry->second;
  }
  std::optional<std::size_t> node(const std::string& id) const {
    const auto found = index_.find(id);
    return found == index_.end() ? std::nullopt : std::optional(found->second);
  }
  void add_port(PortLine line) { lines_.push_back(std::move(line)); }
  void note(std::string text) { notes_.push_back(std::move(text)); }

  Imported finish(bool both_sides) {
    add_points();
    add_cables(both_sides);
    return draft_.finish(options_, std::move(notes_));
  }

 private:
  struct Node {
    Kind kind = Kind::network_switch;
    std::string id, description;
    std::size_t offset = 0;
    std::optional<NetworkDraft::Point> point = std::nullopt;
    bool dropped = false;
  };
  struct Told {
    std::uint32_t times = 0;
    Bandwidth rate;
    std::size_t line = 0;
  };
  using End = std::pair<std::size_t, std::uint32_t>;

  void add_points() {
    const bool any_named = std::any_of(nodes_.begin(), nodes_.end(), [](const Node& it) {
      return it.kind == Kind::hca && !aggregation_node(it.description) && split_hca(it.description).host;
    });
    std::size_t aggregating = 0;
    std::size_t nameless = 0;
    for (Node& node : nodes_) {
      if (node.kind == Kind::network_switch) {
        node.point = draft_.add_switch(switch_name(node.description), node.offset);
        continue;
      }
      const HcaName name = split_hca(node.description);
      aggregating += aggregation_node(node.description) ? 1 : 0;
      nameless += !aggregation_node(node.description) && !name.host ? 1 : 0;
      node.dropped = aggregation_node(node.description) || (!name.host && any_named && !options_.nameless);
      if (node.dropped) continue;
      // Each port is a NIC: of an HCA with two cabled ports both carry traffic at the port's rate.
      host_of_[node.id] = draft_.host(name.host ? *name.host : node.id);
    }
    if (aggregating > 0) note(fmt::format("left out: {} aggregation nodes, which are parts of switches", aggregating));
    if (nameless == 0) return;
    if (any_named && !options_.nameless) {
      note(fmt::format("left out: {} HCAs that name a product but no host (--keep-nameless keeps them)", nameless));
    } else {
      note(fmt::format("assumed: {} HCAs that name no host are a host each", nameless));
    }
  }

  NetworkDraft::Point point_of(const End& end) {
    Node& node = nodes_[end.first];
    if (node.kind == Kind::network_switch) return *node.point;
    const auto [entry, is_new] = nic_points_.try_emplace(end, 0);
    if (is_new) {
      const HcaName name = split_hca(node.description);
      const std::string device =
          end.second == 1 ? std::string(name.device) : fmt::format("{}:{}", name.device, end.second);
      entry->second = draft_.add_nic(host_of_.at(node.id), device, node.offset);
    }
    return entry->second;
  }

  void add_cables(bool both_sides) {
    std::map<std::pair<End, End>, Told> cables;
    std::set<End> used;
    std::size_t without_rate = 0;
    std::size_t differing = 0;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      const PortLine& line = lines_[i];
      const auto remote = node(line.remote);
      if (!remote && line.remote_aggregates) continue;
      if (!remote) {
        input_.fail(line.offset, fmt::format("'{}' has no record in this file; allowed: a whole file, with a record of "
                                             "every node",
                                             shown(line.remote)));
      }
      const End here{line.node, line.port};
      const End there{*remote, line.remote_port};
      if (!used.insert(here).second) {
        input_.fail(line.offset, fmt::format("port {} of '{}' stands there twice; allowed: once", line.port,
                                             shown(nodes_[line.node].id)));
      }
      without_rate += line.rate ? 0 : 1;
      const Bandwidth rate = line.rate ? *line.rate : usual_rate(line.width);
      Told& told = cables.try_emplace(std::minmax(here, there), Told{0, rate, i}).first->second;
      differing += told.times > 0 && told.rate != rate ? 1 : 0;
      told.rate = std::min(told.rate, rate);
      ++told.times;
    }
    connect(cables, both_sides);
    if (differing > 0)
      note(fmt::format("assumed: the lower rate of {} cables whose ends tell different ones", differing));
    if (without_rate > 0) {
      note(fmt::format("assumed: {} a 4x port (--nic), for {} port lines without a speed", to_text(usual_rate(4)),
                       without_rate));
    }
  }

  Bandwidth usual_rate(std::uint32_t width) const {
    return scaled(options_.nic.value_or(gigabits_per_second(400)), width / 4.0);
  }

  void connect(const std::map<std::pair<End, End>, Told>& cables, bool both_sides) {
    // In the order of the file, so that the graph is.
    std::vector<const std::pair<const std::pair<End, End>, Told>*> ordered;
    ordered.reserve(cables.size());
    for (const auto& entry : cables) ordered.push_back(&entry);
    std::sort(ordered.begin(), ordered.end(),
              [](const auto* a, const auto* b) { return a->second.line < b->second.line; });
    for (const auto* entry : ordered) {
      const auto& [ends, told] = *entry;
      const PortLine& line = lines_[told.line];
      if (told.times < 2 && both_sides) {
        input_.fail(
            line.offset,
            fmt::format("port {} of '{}' leads to port {} of '{}', whose record does not say so; allowed: a whole "
                        "file, in which both ends tell of a cable",
                        line.port, shown(nodes_[line.node].id), line.remote_port, shown(line.remote)));
      }
      if (nodes_[ends.first.first].dropped || nodes_[ends.second.first].dropped) continue;
      draft_.connect(point_of(ends.first), point_of(ends.second), told.rate, 1, line.offset);
    }
  }

  const InputText& input_;
  const ImportOptions& options_;
  NetworkDraft draft_;
  std::vector<Node> nodes_;
  std::unordered_map<std::string, std::size_t> index_;
  std::vector<PortLine> lines_;
  std::unordered_map<std::string, NetworkDraft::Host> host_of_;
  std::map<End, NetworkDraft::Point> nic_points_;
  std::vector<std::string> notes_;
};

/// The form of records.
class RecordReader {
 public:
  RecordReader(const InputText& input, const ImportOptions& options) : input_(input), discovery_(input, options) {}

  Imported read() {
    Lines lines(input_.text());
    while (lines.next()) read_line(Cursor(input_, lines.line(), lines.offset()));
    if (!node_)
      input_.fail(0, "no record of a switch or HCA; allowed: the output of ibnetdiscover, or an ibsim network");
    return discovery_.finish(/*both_sides=*/true);
  }

 private:
  void read_line(Cursor at) {
    at.skip_blanks();
    if (at.at_end() || at.peek() == '#') return;
    if (at.peek() == '[') return read_port(at);
    Cursor start = at;
    const std::string_view word = at.word();
    if (word == "Switch" || word == "Ca" || word == "Hca" || word == "Rt") return read_node(at, word);
    static constexpr std::array keys = {"vendid=", "devid=", "sysimgguid=", "switchguid=", "caguid=", "rtguid="};
    if (std::any_of(keys.begin(), keys.end(), [&](const char* key) { return word.starts_with(key); })) return;
    if (word == "Chassis" || word == "Non-Chassis" || word == "Chassis:") return;
    start.fail(
        fmt::format("found {}; allowed: Switch, Ca or Rt with its number of ports, [port], a key such as vendid=, "
                    "or # and a comment",
                    start.found()));
  }

  void read_node(Cursor at, std::string_view word) {
    if (word == "Rt") at.fail("a router; allowed: one subnet of switches and HCAs");
    at.skip_blanks();
    at.number("the number of ports", port_most);
    at.skip_blanks();
    const std::size_t offset = at.offset();
    const std::string_view id = at.quoted("the node's id");
    at.skip_blanks();
    std::string_view description = id;
    if (at.accept('#')) {
      at.skip_blanks();
      if (at.peek() == '"') description = at.quoted("the node's name");
    }
    const auto kind = word == "Switch" ? Discovery::Kind::network_switch : Discovery::Kind::hca;
    node_ = discovery_.add_node(kind, id, description, offset);
  }

  /// [1](guid) "H-0002c9"[2](guid) # "name" lid 4 4xHDR
  void read_port(Cursor at) {
    if (!node_) at.fail("a port before the first record; allowed: after the line of its switch or HCA");
    Discovery::PortLine line{.node = *node_};
    line.port = port_number(at);
    at.skip_blanks();
    line.offset = at.offset();
    line.remote = at.quoted("the id of the node at the other end");
    line.remote_port = port_number(at);
    read_comment(at, line);
    discovery_.add_port(std::move(line));
  }

  static std::uint32_t port_number(Cursor& at) {
    at.expect('[');
    const std::uint32_t port = at.number("a port", port_most);
    at.expect(']');
    while (at.peek() == '(' || at.peek() == '[') at.skip_past(at.peek() == '(' ? ')' : ']');  // a GUID, [ext 3]
    return port;
  }

  void read_comment(Cursor at, Discovery::PortLine& line) const {
    at.skip_blanks();
    while (!at.at_end()) {
      if (at.peek() == '"') {
        line.remote_aggregates = line.remote_aggregates || aggregation_node(at.quoted("a name"));
      } else {
        read_rate(at, line);
      }
      at.skip_blanks();
    }
  }

  /// "4xHDR", or ibsim's "w=12".
  static void read_rate(Cursor& at, Discovery::PortLine& line) {
    Cursor start = at;
    std::string_view word = at.word();
    if (word.starts_with("w=") && !line.rate) {
      const auto width = whole_number(word.substr(2), port_most);
      if (!width || !known_width(*width)) start.fail(fmt::format("found {}; allowed: w=1, 4, 8 or 12", start.found()));
      line.width = *width;
      return;
    }
    const auto mark = word.find('x');
    const auto width = mark == std::string_view::npos ? std::nullopt : whole_number(word.substr(0, mark), port_most);
    if (!width) return;
    line.rate = port_rate(*width, word.substr(mark + 1));
    if (!line.rate || !known_width(*width)) {
      start.fail(fmt::format("found {}; allowed: a width of 1x, 2x, 4x, 8x or 12x and one of {}", start.found(),
                             speed_words()));
    }
  }

  const InputText& input_;
  Discovery discovery_;
  std::optional<std::size_t> node_;
};

/// The form of `ibnetdiscover -p`: a line a port, with what is at its other end unless it is down.
///   SW  1719 10 0x7cfe9003009ce5b0 4x EDR - CA   134  1 0x7cfe9003003b4bde ( 'switch-001' - 'node-000 HCA-1' )
class PortListReader {
 public:
  PortListReader(const InputText& input, const ImportOptions& options) : input_(input), discovery_(input, options) {}

  Imported read() {
    Lines lines(input_.text());
    while (lines.next()) {
      Cursor at(input_, lines.line(), lines.offset());
      at.skip_blanks();
      if (!at.at_end() && at.peek() != '#') read_line(at);
    }
    if (down_ > 0) discovery_.note(fmt::format("left out: {} ports without a cable", down_));
    return discovery_.finish(/*both_sides=*/false);
  }

 private:
  struct End {
    Discovery::Kind kind = Discovery::Kind::hca;
    std::uint32_t port = 0;
    std::string guid;
    std::size_t offset = 0;
  };

  static End read_end(Cursor& at) {
    at.skip_blanks();
    End end{.offset = at.offset()};
    Cursor start = at;
    const std::string_view kind = at.word();
    if (kind != "CA" && kind != "SW") start.fail(fmt::format("found {}; allowed: CA, SW", start.found()));
    end.kind = kind == "SW" ? Discovery::Kind::network_switch : Discovery::Kind::hca;
    at.skip_blanks();
    at.number("a LID", lid_most);
    at.skip_blanks();
    end.port = at.number("a port", port_most);
    at.skip_blanks();
    Cursor guid = at;
    end.guid = at.word();
    const bool hexadecimal = end.guid.starts_with("0x") && end.guid.size() > 2 && end.guid.size() <= 18 &&
                             end.guid.find_first_not_of("0123456789abcdefABCDEF", 2) == std::string::npos;
    if (!hexadecimal)
      guid.fail(fmt::format("found {}; allowed: a GUID, 0x and up to 16 hexadecimal digits", guid.found()));
    at.skip_blanks();
    return end;
  }

  std::string_view name(Cursor& at) const {
    at.skip_blanks();
    at.expect('\'');
    const auto length = at.rest().find('\'');
    if (length == std::string_view::npos) at.fail("the name does not end; allowed: a closing '");
    const std::string_view text = at.rest().substr(0, length);
    input_.check_words(at.offset(), "name", text);
    at.skip_past('\'');
    return text;
  }

  std::size_t node_of(const End& end, std::string_view description) {
    if (const auto known = discovery_.node(end.guid)) return *known;
    return discovery_.add_node(end.kind, end.guid, description, end.offset);
  }

  void read_line(Cursor at) {
    const End here = read_end(at);
    Cursor speed_at = at;
    const std::uint32_t width = at.number("a width", 12);
    at.expect('x');
    at.skip_blanks();
    const std::string_view speed = at.word();
    at.skip_blanks();
    if (at.peek() == '\'') {  // down: no other end
      node_of(here, name(at));
      ++down_;
      return;
    }
    const auto rate = port_rate(width, speed);
    if (!rate || !known_width(width)) {
      speed_at.fail(fmt::format("'{}x {}' on a cabled port; allowed: a width of 1x, 2x, 4x, 8x or 12x and one of {}",
                                width, shown(speed), speed_words()));
    }
    at.expect('-');
    const End there = read_end(at);
    at.expect('(');
    const std::string_view mine = name(at);
    at.skip_blanks();
    at.expect('-');
    const std::string_view other = name(at);
    node_of(there, other);
    discovery_.add_port({.node = node_of(here, mine),
                         .port = here.port,
                         .remote = there.guid,
                         .remote_port = there.port,
                         .rate = rate,
                         .offset = here.offset});
  }

  const InputText& input_;
  Discovery discovery_;
  std::size_t down_ = 0;
};

bool is_port_list(std::string_view text) {
  Lines lines(text);
  while (lines.next()) {
    std::string_view line = lines.line();
    const std::string_view first = take_word(line);
    if (first.empty() || first.front() == '#') continue;
    return (first == "CA" || first == "SW") && whole_number(take_word(line), ~std::uint32_t{0});
  }
  return false;
}

}  // namespace

Imported read_ibnetdiscover(const InputText& input, const ImportOptions& options) {
  if (is_port_list(input.text())) return PortListReader(input, options).read();
  return RecordReader(input, options).read();
}

}  // namespace foretrain
