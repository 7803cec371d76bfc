#include "tools/import/import.h"

namespace foretrain {

std::span<const ImportKind> import_kinds() {
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  static constexpr ImportKind all[] = {
      {"ibnetdiscover", "InfiniBand discovery (also -p), ibsim networks", 128 * mebibyte, read_ibnetdiscover},
      {"nccl-topo", "NCCL or RCCL topology XML: one server", 4 * mebibyte, read_nccl_topology},
      {"nvidia-smi-topo", "nvidia-smi topo -m: one server", 4 * mebibyte, read_nvidia_smi_topology},
      {"slurm-topology", "Slurm topology.conf, tree or block", 16 * mebibyte, read_slurm_topology},
      {"graphml", "a graph of hosts and switches, or of a whole fabric", 128 * mebibyte, read_graphml_network},
  };
  return all;
}

}  // namespace foretrain
