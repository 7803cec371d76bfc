// Runs the command line in process.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "tools/foretrain.h"

namespace foretrain {

struct Ran {
  int status = 0;
  std::string out, err;
};

inline Ran foretrain_with(const std::vector<std::string>& args) {
  std::ostringstream out;
  std::ostringstream err;
  const int status = run_command(args, {.out = out, .err = err});
  return {status, out.str(), err.str()};
}

}  // namespace foretrain
