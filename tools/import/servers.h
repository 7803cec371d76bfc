// Servers: what is usual inside a server of a GPU kind, for files that do not say it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/import/import.h"
#include "topology/units.h"

namespace foretrain {

/// A GPU kind of the catalogue and the server it comes in.
struct GpuFacts {
  std::string_view name;
  Bandwidth nvlink;                 ///< a GPU, one direction
  Bandwidth pcie;                   ///< x16 slot, one direction
  std::string_view node_transport;  ///< of the catalogue
  Bandwidth nic;                    ///< the usual one
};
/// Of --gpu, else of `in_file`, else of the H100. Throws InputError when the catalogue has no such GPU. A GPU of the
/// catalogue that is not in our table (one of the user's own) is taken for an H100 with a note.
[[nodiscard]] GpuFacts gpu_facts(const ImportOptions& options, std::string_view in_file,
                                 std::vector<std::string>& notes);

/// Latencies of hops as the builders have them (NodeSpec, SwitchSpec): no file gives any.
struct HopLatencies {
  Duration nvlink = NodeSpec{}.nvlink_latency;
  Duration pcie = NodeSpec{}.pcie_latency;
  Duration nic = NodeSpec{}.nic_latency;
  Duration cable = SwitchSpec{}.latency;
};
void note_latencies(std::vector<std::string>& notes);

/// What a PCIe device of `gigatransfers` a lane and `width` lanes carries one way: as the catalogue counts it, signal
/// rate times width (Gen5 x16: 64 GB/s); protocol overhead is the transport's.
[[nodiscard]] Bandwidth pcie_bandwidth(double gigatransfers, std::uint32_t width);

}  // namespace foretrain
