// The matrix of `nvidia-smi topo -m`: for every two devices the closest thing that joins them. Source: its legend, and
// the manual nvidia-smi(1).
//
// PIX and PXB are PCIe switches, PHB and NODE the host of a NUMA node, SYS a way between NUMA nodes. NV# hides how two
// GPUs are joined by PCIe; then the NICs they share tell, and where there are none the CPU affinity.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "scenarios/problems.h"
#include "tools/import/import.h"
#include "tools/import/lines.h"
#include "tools/import/server_draft.h"

namespace foretrain {
namespace {

constexpr std::size_t devices_most = 256;
constexpr std::uint32_t nvlinks_most = 72;
/// Links of the largest GPU before NVLink through switches has to be assumed: H100 to B200 have 18.
constexpr std::size_t nvlinks_of_gpu = 18;

/// Nearest first; each level contains those before it.
enum class Level : std::uint8_t { pix, pxb, phb, node, sys };
constexpr std::size_t level_count = 4;  ///< that join devices; SYS joins all

struct Cell {
  std::optional<Level> pcie;  ///< none on the diagonal and under NV#
  std::uint32_t nvlinks = 0;
  auto operator<=>(const Cell&) const = default;
};

struct Matrix {
  std::vector<std::string> devices;
  std::vector<std::vector<Cell>> cells;
  std::vector<std::string> affinity;  ///< of CPUs; empty where the table has none
  std::vector<std::size_t> offsets;   ///< of rows

  [[nodiscard]] bool is_gpu(std::size_t i) const { return devices[i].starts_with("GPU"); }
  [[nodiscard]] std::size_t size() const { return devices.size(); }
};

/// Terminal escapes (ESC [ ... letter) as blanks, so that offsets stay.
std::string without_escapes(std::string_view text) {
  std::string out(text);
  for (std::size_t i = 0; i + 1 < out.size(); ++i) {
    if (out[i] != '\x1b' || out[i + 1] != '[') continue;
    std::size_t end = i + 2;
    while (end < out.size() && std::string_view("0123456789;").find(out[end]) != std::string_view::npos) ++end;
    const std::size_t last = std::min(end, out.size() - 1);
    for (std::size_t k = i; k <= last; ++k) {
      if (out[k] != '\n') out[k] = ' ';
    }
  }
  return out;
}

bool is_gpu_name(std::string_view word) {
  return word.starts_with("GPU") && whole_number(word.substr(3), 9999).has_value();
}

class MatrixReader {
 public:
  explicit MatrixReader(const InputText& input) : input_(input), text_(without_escapes(input.text())), lines_(text_) {}

  Matrix read() {
    read_header();
    while (matrix_.cells.size() < matrix_.size() && lines_.next()) {
      if (!trimmed(lines_.line()).empty()) read_row();
    }
    if (matrix_.cells.size() < matrix_.size()) {
      input_.fail(text_.size(),
                  fmt::format("the table ends before the row of {}; allowed: a row for each of its {} columns",
                              shown(matrix_.devices[matrix_.cells.size()]), matrix_.size()));
    }
    check_symmetry();
    return std::move(matrix_);
  }

 private:
  void read_header() {
    while (lines_.next()) {
      std::string_view rest = lines_.line();
      std::string_view word = take_word(rest);
      if (!is_gpu_name(word)) continue;
      header_ = lines_.offset();
      for (; !word.empty() && word != "CPU"; word = take_word(rest)) {
        if (matrix_.size() == devices_most) {
          input_.fail(header_, fmt::format("more than {} devices; allowed: up to that", devices_most));
        }
        input_.check_words(header_, "name of a device", word);
        if (std::find(matrix_.devices.begin(), matrix_.devices.end(), word) != matrix_.devices.end()) {
          input_.fail(header_,
                      fmt::format("'{}' stands there twice; allowed: a line of devices, each once", shown(word)));
        }
        matrix_.devices.emplace_back(word);
      }
      has_affinity_ = word == "CPU";
      return;
    }
    input_.fail(0, "no line of devices; allowed: the table of nvidia-smi topo -m, which begins with GPU0 GPU1 ...");
  }

  std::size_t offset_of(std::string_view word) const {
    return lines_.offset() + static_cast<std::size_t>(word.data() - lines_.line().data());
  }

  void read_row() {
    std::string_view rest = lines_.line();
    const std::string& device = matrix_.devices[matrix_.cells.size()];
    const std::string_view name = take_word(rest);
    if (name != device) {
      input_.fail(offset_of(name), fmt::format("found '{}'; allowed: the row of {}", shown(name), shown(device)));
    }
    std::vector<Cell> row;
    for (std::size_t i = 0; i < matrix_.size(); ++i) {
      const std::string_view word = take_word(rest);
      if (word.empty()) {
        input_.fail(lines_.offset() + lines_.line().size(),
                    fmt::format("the row of {} has {} cells; allowed: {}", shown(device), i, matrix_.size()));
      }
      row.push_back(cell(word, i == matrix_.cells.size()));
    }
    matrix_.offsets.push_back(lines_.offset());
    matrix_.cells.push_back(std::move(row));
    matrix_.affinity.emplace_back(has_affinity_ ? take_word(rest) : "");
  }

  Cell cell(std::string_view word, bool diagonal) const {
    static constexpr std::array<std::pair<std::string_view, Level>, 6> levels = {{{"PIX", Level::pix},
                                                                                  {"PXB", Level::pxb},
                                                                                  {"PHB", Level::phb},
                                                                                  {"NODE", Level::node},
                                                                                  {"SYS", Level::sys},
                                                                                  {"SOC", Level::sys}}};
    const std::size_t offset = offset_of(word);
    if ((word == "X") != diagonal) {
      input_.fail(offset, fmt::format("found '{}'; allowed: X on the diagonal, and only there", shown(word)));
    }
    if (diagonal) return {};
    for (const auto& [name, level] : levels) {
      if (word == name) return {level, 0};
    }
    if (word.starts_with("NV")) {
      const auto count = whole_number(word.substr(2), nvlinks_most);
      if (count && *count > 0) return {std::nullopt, *count};
    }
    static constexpr std::array<std::string_view, 6> status = {"OK", "CNS", "GNS", "TNS", "NS", "U"};
    if (std::find(status.begin(), status.end(), word) != status.end()) {
      input_.fail(offset,
                  fmt::format("found '{}', a peer status (nvidia-smi topo -p2p), which tells no topology; allowed: the "
                              "table of nvidia-smi topo -m",
                              word));
    }
    input_.fail(offset,
                fmt::format("found '{}'; allowed: NV1 to NV{}, PIX, PXB, PHB, NODE, SYS", shown(word), nvlinks_most));
  }

  void check_symmetry() const {
    for (std::size_t a = 0; a < matrix_.size(); ++a) {
      for (std::size_t b = a + 1; b < matrix_.size(); ++b) {
        if (matrix_.cells[a][b] == matrix_.cells[b][a]) continue;
        input_.fail(matrix_.offsets[b],
                    fmt::format("what joins {} and {} differs from what joins them the other way round; "
                                "allowed: a symmetric table",
                                shown(matrix_.devices[b]), shown(matrix_.devices[a])));
      }
    }
  }

  const InputText& input_;
  std::string text_;
  Lines lines_;
  Matrix matrix_;
  std::size_t header_ = 0;
  bool has_affinity_ = false;
};

/// Which devices are joined at each level: classes by their first device.
class Classes {
 public:
  explicit Classes(std::size_t devices) {
    for (auto& level : first_) {
      level.resize(devices);
      std::iota(level.begin(), level.end(), std::size_t{0});
    }
  }
  /// Joins at `level` and all wider ones.
  void join(std::size_t a, std::size_t b, Level level) {
    for (auto l = static_cast<std::size_t>(level); l < level_count; ++l) {
      const std::size_t from = std::max(first_.at(l)[a], first_.at(l)[b]);
      const std::size_t to = std::min(first_.at(l)[a], first_.at(l)[b]);
      std::replace(first_.at(l).begin(), first_.at(l).end(), from, to);
    }
  }
  [[nodiscard]] std::size_t of(std::size_t device, Level level) const {
    return first_.at(static_cast<std::size_t>(level))[device];
  }
  [[nodiscard]] bool alone(std::size_t device, Level level) const {
    const auto& all = first_.at(static_cast<std::size_t>(level));
    return std::count(all.begin(), all.end(), all[device]) == 1;
  }

 private:
  std::array<std::vector<std::size_t>, level_count> first_;
};

class Builder {
 public:
  Builder(const InputText& input, const ImportOptions& options, Matrix matrix)
      : input_(input), options_(options), matrix_(std::move(matrix)), draft_(input), classes_(matrix_.size()) {}

  Imported build() {
    join_classes();
    check_classes();
    const GpuFacts facts = gpu_facts(options_, gpu_by_links(), notes_);
    add_devices(facts);
    add_nvlinks(facts);
    notes_.push_back(fmt::format("assumed: {} a PCIe device and switch (--pcie), which the table does not tell",
                                 to_text(facts.pcie)));
    if (nics_ > 0) notes_.push_back(fmt::format("assumed: {} a NIC (--nic)", to_text(facts.nic)));
    return draft_.finish(options_, facts, std::move(notes_));
  }

 private:
  void join_classes() {
    std::vector<bool> known(matrix_.size(), false);
    for (std::size_t a = 0; a < matrix_.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        const std::optional<Level> level = matrix_.cells[a][b].pcie;
        if (!level) continue;
        known[a] = known[b] = true;
        if (*level != Level::sys) classes_.join(a, b, *level);
      }
    }
    // GPUs of which the table tells NVLinks only: by their CPUs.
    bool by_affinity = false;
    for (std::size_t a = 0; a < matrix_.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (known[a] || known[b] || matrix_.affinity[a] != matrix_.affinity[b]) continue;
        classes_.join(a, b, Level::node);
        by_affinity = true;
      }
    }
    if (by_affinity)
      notes_.emplace_back("assumed: GPUs of the same CPU affinity are on one host bridge; NV# hides their PCIe");
  }

  void check_classes() const {
    for (std::size_t a = 0; a < matrix_.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        const std::optional<Level> level = matrix_.cells[a][b].pcie;
        if (!level || *level == Level::pix) continue;
        const auto nearer = static_cast<Level>(static_cast<std::uint8_t>(*level) - 1);
        if (classes_.of(a, nearer) != classes_.of(b, nearer)) continue;
        input_.fail(matrix_.offsets[a],
                    fmt::format("{} and {} are nearer by way of other devices than their cell says; allowed: "
                                "a table without contradiction",
                                shown(matrix_.devices[a]), shown(matrix_.devices[b])));
      }
    }
  }

  std::string_view gpu_by_links() const {
    std::uint32_t most = 0;
    for (const auto& row : matrix_.cells) {
      for (const Cell& cell : row) most = std::max(most, cell.nvlinks);
    }
    if (most == 18) return "h100-80gb";
    return most == 12 ? "a100-80gb" : "";
  }

  void add_devices(const GpuFacts& facts) {
    std::vector<ServerDraft::Device> host_of_class(matrix_.size());
    std::vector<ServerDraft::Device> hosts;
    for (std::size_t i = 0; i < matrix_.size(); ++i) {
      if (classes_.of(i, Level::node) != i) continue;
      host_of_class[i] = draft_.add(fmt::format("host{}", hosts.size()), VertexKind::host, 0);
      hosts.push_back(host_of_class[i]);
    }
    join_hosts(hosts);
    std::vector<std::optional<ServerDraft::Device>> upper(matrix_.size());
    std::vector<std::optional<ServerDraft::Device>> lower(matrix_.size());
    for (std::size_t i = 0; i < matrix_.size(); ++i) {
      ServerDraft::Device above = host_of_class[classes_.of(i, Level::node)];
      const bool one_switch = !classes_.alone(i, Level::pxb) && same_class(i);
      if (!classes_.alone(i, Level::pxb) && !one_switch) above = under(upper[classes_.of(i, Level::pxb)], above, facts);
      if (!classes_.alone(i, Level::pix)) above = under(lower[classes_.of(i, Level::pix)], above, facts);
      draft_.connect(above, add_device(i, facts), facts.pcie, ServerLink::pcie);
    }
  }

  /// Whether all that is within PXB of `i` is within PIX of it: one switch then, not two.
  [[nodiscard]] bool same_class(std::size_t i) const {
    for (std::size_t k = 0; k < matrix_.size(); ++k) {
      if (classes_.of(k, Level::pxb) == classes_.of(i, Level::pxb) &&
          classes_.of(k, Level::pix) != classes_.of(i, Level::pix)) {
        return false;
      }
    }
    return true;
  }

  ServerDraft::Device under(std::optional<ServerDraft::Device>& bridge, ServerDraft::Device above,
                            const GpuFacts& facts) {
    if (!bridge) {
      bridge = draft_.add(fmt::format("pcie{}", switches_++), VertexKind::pcie_switch, 0);
      draft_.connect(above, *bridge, facts.pcie, ServerLink::pcie);
    }
    return *bridge;
  }

  ServerDraft::Device add_device(std::size_t i, const GpuFacts& facts) {
    const std::size_t offset = matrix_.offsets[i];
    if (!matrix_.is_gpu(i)) return draft_.add_nic(fmt::format("nic{}", nics_++), facts.nic, offset);
    gpus_.push_back(i);
    return draft_.add(fmt::format("gpu{}", gpus_.size() - 1), VertexKind::gpu, offset);
  }

  void join_hosts(const std::vector<ServerDraft::Device>& hosts) {
    const Bandwidth between = gigabytes_per_second(16);  // NCCL's estimate for AMD's interconnect (src/graph/topo.h)
    for (std::size_t a = 0; a < hosts.size(); ++a) {
      for (std::size_t b = a + 1; b < hosts.size(); ++b) draft_.connect(hosts[a], hosts[b], between, ServerLink::cpu);
    }
    if (hosts.size() > 1) notes_.push_back(fmt::format("assumed: {} between NUMA nodes (SYS)", to_text(between)));
  }

  /// NVLink 2 to 4 carry 25 GB/s a link one way, NVLink 5 50 (NVIDIA data sheets).
  void add_nvlinks(const GpuFacts& facts) {
    const bool fifth = facts.name == "b200" || facts.name == "gb200";
    const Bandwidth link = gigabytes_per_second(fifth ? 50 : 25);
    std::uint32_t least = nvlinks_most;
    std::uint32_t most = 0;
    for (const std::size_t a : gpus_) {
      for (const std::size_t b : gpus_) {
        if (a == b) continue;
        least = std::min(least, matrix_.cells[a][b].nvlinks);
        most = std::max(most, matrix_.cells[a][b].nvlinks);
      }
    }
    if (most == 0) return;
    notes_.push_back(fmt::format("assumed: {} an NVLink, one way", to_text(link)));
    if (least == most && most * (gpus_.size() - 1) > nvlinks_of_gpu) {
      draft_.add_nvswitch(options_.nvlink.value_or(link * most));
      notes_.push_back(fmt::format("assumed: an NVSwitch, for {} links to each of {} GPUs are more than a GPU has",
                                   most, gpus_.size() - 1));
      return;
    }
    for (std::size_t a = 0; a < gpus_.size(); ++a) {
      for (std::size_t b = a + 1; b < gpus_.size(); ++b) {
        const std::uint32_t links = matrix_.cells[gpus_[a]][gpus_[b]].nvlinks;
        if (links > 0) draft_.connect(draft_.gpus()[a], draft_.gpus()[b], link * links, ServerLink::nvlink);
      }
    }
  }

  const InputText& input_;
  const ImportOptions& options_;
  Matrix matrix_;
  ServerDraft draft_;
  Classes classes_;
  std::vector<std::size_t> gpus_;  ///< positions in the matrix, in the order of the draft's
  std::size_t nics_ = 0, switches_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace

Imported read_nvidia_smi_topology(const InputText& input, const ImportOptions& options) {
  return Builder(input, options, MatrixReader(input).read()).build();
}

}  // namespace foretrain
