// NCCL's topology XML (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE; NCCL source, src/graph/topo.cc and xml.cc) and RCCL's: a
// server's CPUs, PCIe tree, GPUs with their NVLinks or xGMI links, NICs with their speeds.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <unordered_map>

#include "scenarios/problems.h"
#include "scenarios/xml_text.h"
#include "tools/import/import.h"
#include "tools/import/lines.h"
#include "tools/import/server_draft.h"

namespace foretrain {
namespace {

constexpr std::size_t marks_most = 200'000;
constexpr int depth_most = 32;
constexpr std::uint32_t links_most = 64;  ///< NVLinks of one line

struct LinkSpeed {
  int architecture;
  double gigabytes;  ///< line rate of a link, one direction
};
/// NVIDIA data sheets: NVLink 1 (Pascal) 20, 2 to 4 (Volta, Ampere, Hopper) 25, GA102 14.0625, NVLink 5 (Blackwell) 50.
/// NCCL's tuner counts 18, 20, 20.6, 12 and 40.1 of them, what is left after protocol: our transports hold that loss.
constexpr std::array nvlink_speeds = {LinkSpeed{60, 20},      LinkSpeed{70, 25}, LinkSpeed{80, 25},
                                      LinkSpeed{86, 14.0625}, LinkSpeed{90, 25}, LinkSpeed{100, 50}};
/// AMD data sheets, Infinity Fabric of MI50 to MI300X, by the gfx number.
constexpr std::array xgmi_speeds = {LinkSpeed{906, 46}, LinkSpeed{908, 46}, LinkSpeed{910, 50}, LinkSpeed{942, 64}};

/// The entry of the newest architecture that is not newer.
template <std::size_t N>
double speed_of(const std::array<LinkSpeed, N>& speeds, int architecture) {
  double found = speeds.front().gigabytes;
  for (const LinkSpeed& it : speeds) {
    if (architecture >= it.architecture) found = it.gigabytes;
  }
  return found;
}

enum class DeviceKind : std::uint8_t { bridge, gpu, nic, other };

DeviceKind kind_of(std::string_view pci_class) {
  // PCI Code and ID Assignment: base class and subclass.
  static constexpr std::array<std::pair<std::string_view, DeviceKind>, 7> known = {{{"0x0604", DeviceKind::bridge},
                                                                                    {"0x0302", DeviceKind::gpu},
                                                                                    {"0x0300", DeviceKind::gpu},
                                                                                    {"0x0380", DeviceKind::gpu},
                                                                                    {"0x1200", DeviceKind::gpu},
                                                                                    {"0x0200", DeviceKind::nic},
                                                                                    {"0x0207", DeviceKind::nic}}};
  for (const auto& [prefix, kind] : known) {
    if (pci_class.starts_with(prefix)) return kind;
  }
  return DeviceKind::other;
}

class Reader {
 public:
  Reader(const InputText& input, const ImportOptions& options)
      : options_(options), xml_(input, marks_most), draft_(input) {}

  Imported read() {
    const pugi::xml_node system = xml_.root();
    if (std::string_view(system.name()) == "graphs") {
      xml_.fail(system,
                "a graph file of NCCL (channels, NCCL_GRAPH_FILE), not a topology; allowed: <system>, as "
                "NCCL_TOPO_DUMP_FILE writes it");
    }
    if (std::string_view(system.name()) != "system") {
      xml_.fail(system, fmt::format("the root is '{}'; allowed: <system>, as NCCL_TOPO_DUMP_FILE writes it",
                                    shown(system.name())));
    }
    std::vector<ServerDraft::Device> hosts;
    for (const pugi::xml_node cpu : system.children("cpu")) hosts.push_back(read_cpu(cpu));
    constexpr std::size_t cpus_most = 64;  // each is joined to each
    if (hosts.size() > cpus_most) xml_.fail(system, fmt::format("{} CPUs; allowed: up to {}", hosts.size(), cpus_most));
    if (hosts.empty()) xml_.fail(system, "there is no <cpu>; allowed: a system with one or more");
    if (draft_.gpus().empty()) {
      xml_.fail(system, unknown_devices_ > 0
                            ? "no device is known to be a GPU: neither class nor <gpu> is given; allowed: a "
                              "dump of a running system (NCCL_TOPO_DUMP_FILE)"
                            : "there is no GPU; allowed: a system with GPUs");
    }
    join_hosts(hosts);
    const GpuFacts facts = gpu_facts(options_, gpu_in_file(), notes_);
    join_gpus(facts);
    note_counts(facts);
    return draft_.finish(options_, facts, std::move(notes_));
  }

 private:
  struct Gpu {
    ServerDraft::Device device = 0;
    pugi::xml_node element;  ///< <gpu>; none in files that leave it to NCCL
    std::string device_id;
  };

  std::string name(std::string_view what) { return fmt::format("{}{}", what, counts_[std::string(what)]++); }

  ServerDraft::Device read_cpu(pugi::xml_node cpu) {
    const ServerDraft::Device host = draft_.add(name("host"), VertexKind::host, xml_.offset(cpu));
    for (const pugi::xml_node child : cpu.children()) read_child(child, host, 1);
    return host;
  }

  void read_child(pugi::xml_node element, ServerDraft::Device above, int depth) {
    const std::string_view tag = element.name();
    if (tag == "pci") return read_pci(element, above, depth);
    if (tag == "nic") {  // a NIC that no PCIe device holds: a virtual one
      read_nets(element, above, std::nullopt);
      return;
    }
    if (element.type() == pugi::node_element) {
      xml_.fail(element, fmt::format("found <{}>; allowed here: pci, nic", shown(tag)));
    }
  }

  void read_pci(pugi::xml_node pci, ServerDraft::Device above, int depth) {
    if (depth > depth_most) xml_.fail(pci, fmt::format("more than {} levels of pci; allowed: fewer", depth_most));
    const std::string bus = xml_.required(pci, "busid");
    const std::string_view pci_class = pci.attribute("class").value();
    DeviceKind kind = kind_of(pci_class);
    if (pci.child("gpu")) kind = DeviceKind::gpu;
    if (pci.child("nic")) kind = DeviceKind::nic;
    if (pci.child("pci")) kind = DeviceKind::bridge;
    const std::size_t offset = xml_.offset(pci);
    if (kind == DeviceKind::other) {
      unknown_devices_ += pci_class.empty() ? 1 : 0;
      return;
    }
    const Bandwidth rate = slot_rate(pci);
    if (kind == DeviceKind::bridge) {
      const ServerDraft::Device at = draft_.add(name("pcie"), VertexKind::pcie_switch, offset);
      draft_.connect(above, at, rate, ServerLink::pcie);
      for (const pugi::xml_node child : pci.children()) read_child(child, at, depth + 1);
    } else if (kind == DeviceKind::gpu) {
      const ServerDraft::Device gpu = draft_.add(name("gpu"), VertexKind::gpu, offset);
      draft_.connect(above, gpu, rate, ServerLink::pcie);
      if (!at_bus_.emplace(bus, gpus_.size()).second) {
        xml_.fail(pci, fmt::format("a second GPU at busid '{}'; allowed: one", shown(bus)));
      }
      gpus_.push_back({gpu, pci.child("gpu"), pci.attribute("device").value()});
    } else {
      read_nic_card(pci, above, rate);
    }
  }

  void read_nic_card(pugi::xml_node pci, ServerDraft::Device above, Bandwidth rate) {
    if (const pugi::xml_node nic = pci.child("nic")) {
      read_nets(nic, above, rate);
      return;
    }
    const Bandwidth speed = options_.nic.value_or(std::min(gigabits_per_second(400), rate));
    draft_.connect(above, draft_.add_nic(name("nic"), speed, xml_.offset(pci)), rate, ServerLink::pcie);
    ++nics_without_speed_;
  }

  /// The ports of a card share its slot.
  void read_nets(pugi::xml_node nic, ServerDraft::Device above, std::optional<Bandwidth> slot) {
    std::vector<pugi::xml_node> ports;
    for (const pugi::xml_node net : nic.children("net")) ports.push_back(net);
    for (const pugi::xml_node net : ports) {
      const double megabits = decimal(net, "speed", net.attribute("speed").value(), 1, 1e8);
      const Bandwidth speed = gigabits_per_second(megabits / 1000);
      const ServerDraft::Device device = draft_.add_nic(name("nic"), speed, xml_.offset(net));
      const Bandwidth share = slot ? scaled(*slot, 1.0 / static_cast<double>(ports.size())) : speed;
      draft_.connect(above, device, share, ServerLink::pcie);
    }
    split_slots_ += ports.size() > 1 ? 1 : 0;
  }

  double decimal(pugi::xml_node at, std::string_view what, std::string_view text, double least, double most) const {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc{} || end != text.data() + text.size() ||
        !(value >= least && value <= most)) {
      xml_.fail(at, fmt::format("{} '{}'; allowed: a number from {} to {}", what, shown(text), least, most));
    }
    return value;
  }

  /// "16 GT/s", "32.0 GT/s PCIe" times a width in lanes; x16 Gen3 where the file says nothing, as NCCL takes it.
  Bandwidth slot_rate(pugi::xml_node pci) {
    std::string_view speed = pci.attribute("link_speed").value();
    const std::string_view width = pci.attribute("link_width").value();
    if (speed.empty() || width.empty()) {
      ++slots_without_speed_;
      return options_.pcie.value_or(pcie_bandwidth(8, 16));
    }
    const std::string_view number = take_word(speed);
    if (take_word(speed) != "GT/s") {
      xml_.fail(pci, fmt::format("link_speed '{}'; allowed: such as \"16 GT/s\"",
                                 shown(pci.attribute("link_speed").value())));
    }
    const double gigatransfers = decimal(pci, "link_speed", number, 1, 1024);
    const auto lanes = whole_number(width, 64);
    if (!lanes || *lanes == 0) xml_.fail(pci, fmt::format("link_width '{}'; allowed: 1 to 64 lanes", shown(width)));
    return pcie_bandwidth(gigatransfers, *lanes);
  }

  void join_hosts(const std::vector<ServerDraft::Device>& hosts) {
    // NCCL's estimate for AMD's interconnect; newer Intel ones reach 22 (src/graph/topo.h).
    const Bandwidth between = gigabytes_per_second(16);
    for (std::size_t a = 0; a < hosts.size(); ++a) {
      for (std::size_t b = a + 1; b < hosts.size(); ++b) draft_.connect(hosts[a], hosts[b], between, ServerLink::cpu);
    }
    if (hosts.size() > 1)
      notes_.push_back(fmt::format("assumed: {} between CPUs, as NCCL counts AMD's", to_text(between)));
  }

  struct Peer {
    Bandwidth rate;
    std::uint32_t told = 0;
  };
  using Pair = std::pair<std::size_t, std::size_t>;

  void join_gpus(const GpuFacts& facts) {
    std::map<Pair, std::array<Bandwidth, 2>> peers;
    std::vector<Bandwidth> to_switch(gpus_.size());
    for (std::size_t g = 0; g < gpus_.size(); ++g) {
      for (const pugi::xml_node link : gpus_[g].element.children()) read_link(link, g, peers, to_switch);
    }
    for (const auto& [pair, rates] : peers) {
      if (rates[0] != rates[1]) {
        xml_.fail(gpus_[pair.first].element,
                  fmt::format("the links of GPUs {} and {} to each other differ: {} and {}; allowed: "
                              "the same both ways",
                              pair.first, pair.second, to_text(rates[0]), to_text(rates[1])));
      }
      draft_.connect(gpus_[pair.first].device, gpus_[pair.second].device, rates[0], ServerLink::nvlink);
    }
    const bool switched = std::any_of(to_switch.begin(), to_switch.end(), [](Bandwidth b) { return b > Bandwidth{}; });
    if (switched) {
      const ServerDraft::Device nvswitch = draft_.add("nvswitch", VertexKind::nvswitch, 0);
      for (std::size_t g = 0; g < gpus_.size(); ++g) {
        if (to_switch[g] > Bandwidth{}) draft_.connect(gpus_[g].device, nvswitch, to_switch[g], ServerLink::nvlink);
      }
    }
    if (draft_.has_nvlink() || gpus_.size() < 2) return;
    if (std::any_of(gpus_.begin(), gpus_.end(), [](const Gpu& gpu) { return !gpu.element.empty(); })) return;
    draft_.add_nvswitch(facts.nvlink);
    notes_.push_back(fmt::format("assumed: GPUs on an NVSwitch, {} each (--nvlink): the file leaves NVLinks to NCCL",
                                 to_text(facts.nvlink)));
  }

  void read_link(pugi::xml_node link, std::size_t gpu, std::map<Pair, std::array<Bandwidth, 2>>& peers,
                 std::vector<Bandwidth>& to_switch) {
    const std::string_view tag = link.name();
    if (tag == "c2c") {
      ++c2c_;
      return;
    }
    if (tag != "nvlink" && tag != "xgmi") {
      if (link.type() == pugi::node_element)
        xml_.fail(link, fmt::format("found <{}>; allowed here: nvlink, xgmi, c2c", shown(tag)));
      return;
    }
    const auto count = whole_number(link.attribute("count").value(), links_most);
    if (!count || *count == 0) {
      xml_.fail(link, fmt::format("count '{}'; allowed: 1 to {}", shown(link.attribute("count").value()), links_most));
    }
    const Bandwidth rate = link_rate(gpu, tag == "xgmi") * *count;
    const std::string target = xml_.required(link, "target");
    const std::string_view target_class = link.attribute("tclass").value();
    const auto other = at_bus_.find(target);
    if (other != at_bus_.end()) {
      if (other->second == gpu) xml_.fail(link, "a link of a GPU to itself; allowed: to another");
      auto& rates = peers[std::minmax(gpu, other->second)];
      Bandwidth& mine = rates.at(gpu < other->second ? 0 : 1);
      mine = mine + rate;
    } else if (target_class.starts_with("0x0680")) {
      to_switch[gpu] = to_switch[gpu] + rate;
    } else {
      xml_.fail(
          link,
          fmt::format("target '{}' is no GPU of the file and its class '{}' no NVSwitch; allowed: a GPU's busid, or "
                      "tclass 0x068000",
                      shown(target), shown(target_class)));
    }
  }

  Bandwidth link_rate(std::size_t gpu, bool xgmi) const {
    const pugi::xml_node element = gpus_[gpu].element;
    if (!xgmi) {
      const auto sm = whole_number(element.attribute("sm").value(), 999);
      if (!sm)
        xml_.fail(element, fmt::format("sm '{}'; allowed: a GPU architecture such as 90",
                                       shown(element.attribute("sm").value())));
      return gigabytes_per_second(speed_of(nvlink_speeds, static_cast<int>(*sm)));
    }
    std::string_view gcn = element.attribute("gcn").value();
    if (gcn.starts_with("gfx")) gcn.remove_prefix(3);
    // gfx90a is the MI250, which RCCL also writes as 910.
    const auto number = gcn == "90a" ? std::optional<std::uint32_t>(910) : whole_number(gcn, 9999);
    if (!number)
      xml_.fail(element,
                fmt::format("gcn '{}'; allowed: such as gfx942 or 908", shown(element.attribute("gcn").value())));
    return gigabytes_per_second(speed_of(xgmi_speeds, static_cast<int>(*number)));
  }

  /// By PCI device, else by architecture; empty: unknown.
  std::string_view gpu_in_file() const {
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 6> devices = {{{"0x20b0", "a100-40gb"},
                                                                                              {"0x20b2", "a100-80gb"},
                                                                                              {"0x2330", "h100-80gb"},
                                                                                              {"0x2324", "h800"},
                                                                                              {"0x2335", "h200"},
                                                                                              {"0x2901", "b200"}}};
    for (const auto& [id, gpu] : devices) {
      if (gpus_.front().device_id == id) return gpu;
    }
    const pugi::xml_node element = gpus_.front().element;
    if (!element.attribute("gcn").empty()) return {};
    const std::string_view sm = element.attribute("sm").value();
    if (sm == "80") return "a100-80gb";
    if (sm == "90") return "h100-80gb";
    return sm == "100" ? "b200" : "";
  }

  void note_counts(const GpuFacts& facts) {
    const pugi::xml_node element = gpus_.front().element;
    if (!element.attribute("gcn").empty() && !options_.gpu) {
      notes_.push_back(fmt::format("assumed: {} stands for the file's AMD GPUs (gcn {})", facts.name,
                                   shown(element.attribute("gcn").value())));
    }
    if (slots_without_speed_ > 0) {
      notes_.push_back(fmt::format("assumed: {} for {} PCIe devices without link_speed (--pcie)",
                                   to_text(options_.pcie.value_or(pcie_bandwidth(8, 16))), slots_without_speed_));
    }
    if (nics_without_speed_ > 0) {
      notes_.push_back(fmt::format("assumed: {} for {} NICs without speed, their slot's rate at most (--nic)",
                                   to_text(options_.nic.value_or(gigabits_per_second(400))), nics_without_speed_));
    }
    if (split_slots_ > 0)
      notes_.push_back(fmt::format("assumed: the ports of {} cards share their slot evenly", split_slots_));
    if (c2c_ > 0) notes_.push_back(fmt::format("left out: {} chip-to-chip links between GPU and CPU", c2c_));
    if (unknown_devices_ > 0) notes_.push_back(fmt::format("left out: {} devices without class", unknown_devices_));
  }

  const ImportOptions& options_;
  XmlText xml_;
  ServerDraft draft_;
  std::map<std::string, int> counts_;
  std::vector<Gpu> gpus_;
  std::unordered_map<std::string, std::size_t> at_bus_;
  std::vector<std::string> notes_;
  std::size_t slots_without_speed_ = 0, nics_without_speed_ = 0, split_slots_ = 0, c2c_ = 0, unknown_devices_ = 0;
};

}  // namespace

Imported read_nccl_topology(const InputText& input, const ImportOptions& options) {
  return Reader(input, options).read();
}

}  // namespace foretrain
