#pragma once

#include <string_view>

namespace foretrain {

/// "0.1.0", the project's version in CMakeLists.txt.
[[nodiscard]] std::string_view version();

}  // namespace foretrain
