// A subcommand: a file in this folder, a function here, and a line in command.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tools/console.h"

namespace foretrain {

struct Command {
  std::string_view name;
  std::string_view summary;  ///< one line of `foretrain --help`
  /// Arguments after the command's name; returns the exit status. Throws InputError and Deadlock.
  int (*run)(std::span<const std::string> args, const Console& console);
};

/// In the order of `foretrain --help`.
[[nodiscard]] std::span<const Command> commands();

int run_scenario(std::span<const std::string> args, const Console& console);     // run.cpp
int show_memory(std::span<const std::string> args, const Console& console);      // memory.cpp
int show_topology(std::span<const std::string> args, const Console& console);    // topology.cpp
int show_collective(std::span<const std::string> args, const Console& console);  // collective.cpp
int show_schedule(std::span<const std::string> args, const Console& console);    // schedule.cpp
int validate_runs(std::span<const std::string> args, const Console& console);    // validate.cpp
int import_file(std::span<const std::string> args, const Console& console);      // import.cpp

}  // namespace foretrain
