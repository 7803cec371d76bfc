// ServerDraft: one server as a file lists its devices, to be completed to a cluster of one or several of it.
//
//   ServerDraft draft(input);
//   auto host = draft.add("host0", VertexKind::host, 0);
//   auto gpu = draft.add("gpu0", VertexKind::gpu, 0);
//   draft.connect(host, gpu, gigabytes_per_second(32), ServerLink::pcie);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/import/import.h"
#include "tools/import/servers.h"

namespace foretrain {

enum class ServerLink : std::uint8_t { nvlink, pcie, cpu };

class ServerDraft {
 public:
  using Device = std::uint32_t;
  explicit ServerDraft(const InputText& input) : input_(input) {}

  Device add(const std::string& name, VertexKind kind, std::size_t offset);
  void connect(Device a, Device b, Bandwidth each_way, ServerLink link);
  [[nodiscard]] const std::vector<Device>& gpus() const { return gpus_; }
  /// A NIC's line rate, for the network of several servers.
  Device add_nic(const std::string& name, Bandwidth rate, std::size_t offset);
  /// Whether any NVLink has been laid.
  [[nodiscard]] bool has_nvlink() const { return nvlink_; }
  /// All GPUs on one NVSwitch.
  void add_nvswitch(Bandwidth each_way);

  /// Servers of options.nodes; several are joined rail by rail: NIC r of every server on leaf r, a spine above.
  [[nodiscard]] Imported finish(const ImportOptions& options, const GpuFacts& facts, std::vector<std::string> notes);

 private:
  struct Nic {
    Device device = 0;
    Bandwidth rate;
  };
  void add_network(GraphSpec& graph, std::uint32_t nodes) const;

  const InputText& input_;
  GraphSpec server_;
  std::vector<Device> gpus_;
  std::vector<Nic> nics_;
  bool nvlink_ = false;
};

}  // namespace foretrain
