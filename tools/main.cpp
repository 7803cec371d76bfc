#include <unistd.h>

#include <iostream>
#include <string>
#include <vector>

#include "tools/foretrain.h"

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  return foretrain::run_command(args, {.out = std::cout,
                                       .err = std::cerr,
                                       .look = foretrain::look_of_environment(isatty(STDOUT_FILENO) == 1),
                                       .progress = isatty(STDERR_FILENO) == 1});
}
