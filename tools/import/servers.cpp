#include "tools/import/servers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "scenarios/catalogue.h"
#include "scenarios/problems.h"
#include "scenarios/scenario.h"

namespace foretrain {
namespace {

/// NVIDIA data sheets: NVLink total both ways over two; PCIe Gen4 and Gen5 x16; NICs of the DGX of that generation.
std::span<const GpuFacts> known_gpus() {
  static const Bandwidth gen4 = gigabytes_per_second(32);
  static const Bandwidth gen5 = gigabytes_per_second(64);
  static const Bandwidth hdr = gigabits_per_second(200);
  static const Bandwidth ndr = gigabits_per_second(400);
  static const std::array all = {
      GpuFacts{"h100-80gb", gigabytes_per_second(450), gen5, "hopper", ndr},
      GpuFacts{"h200", gigabytes_per_second(450), gen5, "hopper", ndr},
      GpuFacts{"h800", gigabytes_per_second(200), gen5, "hopper", ndr},
      GpuFacts{"a100-80gb", gigabytes_per_second(300), gen4, "ampere", hdr},
      GpuFacts{"a100-40gb", gigabytes_per_second(300), gen4, "ampere", hdr},
      GpuFacts{"b200", gigabytes_per_second(900), gen5, "blackwell", ndr},
      GpuFacts{"gb200", gigabytes_per_second(900), gen5, "blackwell", ndr},
  };
  return all;
}

}  // namespace

GpuFacts gpu_facts(const ImportOptions& options, std::string_view in_file, std::vector<std::string>& notes) {
  const std::string_view name = options.gpu ? std::string_view(*options.gpu) : in_file;
  const std::vector<std::string> shelf =
      options.gpu ? Catalogue(default_catalogue()).names(Shelf::gpus) : std::vector<std::string>();
  if (options.gpu && std::find(shelf.begin(), shelf.end(), *options.gpu) == shelf.end()) {
    throw InputError(fmt::format("--gpu '{}' is not in the catalogue{}; allowed: {}", shown(*options.gpu),
                                 suggestion(*options.gpu, shelf), fmt::join(shelf, ", ")));
  }
  GpuFacts facts = known_gpus().front();
  const auto known =
      std::find_if(known_gpus().begin(), known_gpus().end(), [&](const GpuFacts& it) { return it.name == name; });
  if (known != known_gpus().end()) {
    facts = *known;
  } else if (options.gpu) {
    facts.name = name;
    notes.push_back(fmt::format("assumed: a server of {} has the NVLink, PCIe and transport of an H100's", name));
  } else {
    notes.push_back(fmt::format("assumed: GPUs are {} (--gpu)", facts.name));
  }
  if (options.nvlink) facts.nvlink = *options.nvlink;
  if (options.pcie) facts.pcie = *options.pcie;
  if (options.nic) facts.nic = *options.nic;
  return facts;
}

void note_latencies(std::vector<std::string>& notes) {
  const HopLatencies hop;
  notes.push_back(fmt::format("assumed: latencies of a hop: NVLink {}, PCIe {}, NIC {}, cable and switch {}",
                              to_text(hop.nvlink), to_text(hop.pcie), to_text(hop.nic), to_text(hop.cable)));
}

Bandwidth pcie_bandwidth(double gigatransfers, std::uint32_t width) {
  return gigabits_per_second(gigatransfers * width);
}

}  // namespace foretrain
