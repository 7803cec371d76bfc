#include <spdlog/cfg/helpers.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "tools/foretrain.h"
#include "tools/huge_pages.h"

namespace {

/// The log goes to standard error and says nothing below warnings unless FORETRAIN_LOG asks for more ("debug").
void set_up_log() {
  spdlog::set_default_logger(spdlog::stderr_color_mt("foretrain"));
  spdlog::set_pattern("%^[%l]%$ %v");
  spdlog::set_level(spdlog::level::warn);
  if (const char* level = std::getenv("FORETRAIN_LOG")) spdlog::cfg::helpers::load_levels(level);
}

}  // namespace

int main(int argc, char** argv) {
  foretrain::keep_freed_memory();
  set_up_log();
  const std::vector<std::string> args(argv + 1, argv + argc);
  return foretrain::run_command(args, {.out = std::cout,
                                       .err = std::cerr,
                                       .look = foretrain::look_of_environment(isatty(STDOUT_FILENO) == 1),
                                       .progress = isatty(STDERR_FILENO) == 1});
}
