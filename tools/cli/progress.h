// Progress: one line on a terminal that says what takes long, wiped when it is done; nothing in a pipe.
//
//   const Progress progress(console, "playing 8 ranks ...");
//   progress.show(0.5);                              // "playing 8 ranks ... 50 %"
#pragma once

#include <fmt/format.h>

#include <ostream>
#include <string>

#include "tools/console.h"

namespace foretrain {

class Progress {
 public:
  Progress(const Console& console, std::string text) : console_(console), text_(std::move(text)) {
    if (console_.progress) console_.err << text_ << std::flush;
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() {
    if (console_.progress) console_.err << "\r\x1b[K" << std::flush;
  }
  void show(double part) const {
    if (console_.progress) console_.err << fmt::format("\r{} {:.0f} %", text_, 100 * part) << std::flush;
  }

 private:
  const Console& console_;
  std::string text_;
};

}  // namespace foretrain
