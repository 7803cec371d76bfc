// Console: where a command writes, and what the reader's terminal can show.
#pragma once

#include <iosfwd>

namespace foretrain {

/// What text may use beyond plain ASCII.
struct Look {
  bool colour = false;   ///< ANSI colours: a terminal, and NO_COLOR is unset
  bool unicode = false;  ///< block characters: the locale says UTF-8
};

struct Console {
  std::ostream& out;  ///< answers
  std::ostream& err;  ///< mistakes and progress
  Look look = {};
  bool progress = false;  ///< `err` is a terminal: say what takes long
};

/// From LC_ALL, LC_CTYPE, LANG (the first that is set decides) and NO_COLOR.
[[nodiscard]] Look look_of_environment(bool terminal);

}  // namespace foretrain
