// The command `foretrain`, as a function, so that tests drive it in process.
//
//   std::ostringstream out, err;
//   int status = run_command(std::vector<std::string>{"run", "scenarios/llama3-405b.yaml"}, {out, err});
#pragma once

#include <span>
#include <string>

#include "tools/console.h"

namespace foretrain {

/// `args` without the program's name. Returns the exit status: 0 done; 1 a simulation that cannot finish; 2 bad input
/// or usage; 3 a fault of ours. Never throws.
int run_command(std::span<const std::string> args, const Console& console);

}  // namespace foretrain
