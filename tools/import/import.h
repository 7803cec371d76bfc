// Importers: from a file that another program wrote to the graph of a cluster. One reader a file, one line in
// import.cpp each.
//
//   const ImportKind& kind = ...;                                    // of import_kinds()
//   Imported imported = kind.read(InputText("net.txt", text), options);
//   imported.graph, imported.notes                                     // "assumed: 600ns a hop..."
//
// Readers throw InputError `FILE:LINE:COL: what; allowed` at the first mistake. What a file does not say is taken from
// the options or from what is usual, and every such assumption becomes a note.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/input_text.h"
#include "topology/builders/builders.h"

namespace foretrain {

/// What the user says about the cluster beyond the file. Absent: as the file has it, else the usual.
struct ImportOptions {
  std::optional<std::string> gpu;              ///< of the catalogue
  std::optional<std::uint32_t> gpus_per_node;  ///< of hosts whose GPUs the file does not list
  std::optional<std::uint32_t> nics_per_node;  ///< of hosts whose NICs the file does not list
  std::uint32_t nodes = 1;                     ///< servers, where the file describes one
  std::optional<Bandwidth> nic;                ///< a NIC or port whose speed the file does not give
  std::optional<Bandwidth> nvlink;             ///< a GPU to its NVSwitch, one direction
  std::optional<Bandwidth> pcie;               ///< GPU to NIC, one direction
  std::string hosts = "*";                     ///< glob: hosts of other names are left out
  bool nameless = false;                       ///< keep HCAs whose host the file does not name, each a host of its own
  bool join = false;                           ///< separate networks get a switch above them
  double oversubscription = 1;                 ///< of uplinks whose bandwidth the file does not give
};

struct Imported {
  GraphSpec graph;
  std::string gpu;
  Bandwidth nvlink;                ///< a GPU, one direction: for the transport's ring rate
  std::string node_transport;      ///< of the catalogue
  std::vector<std::string> notes;  ///< "assumed: ...", "left out: ..."
};

struct ImportKind {
  std::string_view name;
  std::string_view summary;
  std::size_t bytes_max;  ///< of a file
  Imported (*read)(const InputText& input, const ImportOptions& options);
};
[[nodiscard]] std::span<const ImportKind> import_kinds();

Imported read_ibnetdiscover(const InputText& input, const ImportOptions& options);
Imported read_nccl_topology(const InputText& input, const ImportOptions& options);
Imported read_nvidia_smi_topology(const InputText& input, const ImportOptions& options);
Imported read_slurm_topology(const InputText& input, const ImportOptions& options);
Imported read_graphml_network(const InputText& input, const ImportOptions& options);

}  // namespace foretrain
