#include "tools/commands/command.h"

namespace foretrain {

std::span<const Command> commands() {
  static constexpr Command all[] = {
      {"run", "plays a scenario and says where the time and the memory go", run_scenario},
      {"memory", "memory of a scenario by stage and part, and whether it fits", show_memory},
      {"topology", "describes a cluster's network: counts, bisection, oversubscription", show_topology},
      {"collective", "the simulated nccl-tests table of a cluster", show_collective},
      {"schedule", "a pipeline schedule by itself: its bubble, its memory, its picture", show_schedule},
      {"validate", "predicts published training runs and says how far off each is", validate_runs},
      {"import", "turns files of other programs into a cluster or a model", import_file},
  };
  return all;
}

}  // namespace foretrain
