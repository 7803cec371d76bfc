// Fuzzes --set: each line of the input is one option, laid over a legal scenario.
#include <cstddef>
#include <cstdint>
#include <sstream>

#include "tests/fuzz/scenario_property.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::istringstream lines(std::string(data, data + size));
  std::vector<std::string> sets;
  for (std::string line; sets.size() < 16 && std::getline(lines, line);) sets.push_back(line);
  foretrain::loads_or_explains(
      "model: llama3-8b\n"
      "cluster: {use: dgx-h100-ndr, gpus: 16}\n"
      "training: {sequence_length: 8192, global_batch: 64}\n"
      "parallelism: {tp: 2}\n",
      sets);
  return 0;
}
