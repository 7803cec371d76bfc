// The cells of a schedule as PyTorch writes it: one row a rank, cells such as 2F0 (stage, action, microbatch) between
// commas, no header.
//
//   read_cell("(0F7;7B3)OVERLAP_F_B").actions.size() == 2;
//   read_cell("2X0").mistake == "found '2X0'; allowed: ...";
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "workloads/schedules/runtime.h"

namespace foretrain {

/// How a file spells backward passes: until mid-2024 PyTorch wrote B for the input gradient and BW for the whole.
enum class Spelling : std::uint8_t { now, old };

struct ReadCell {
  std::vector<RuntimeAction> actions;  ///< one, or the two of an overlapped block; none of an idle step
  std::string mistake;                 ///< what is wrong; what is allowed. Empty if nothing is
};

/// A cell without blanks around it.
[[nodiscard]] ReadCell read_cell(std::string_view cell, Spelling spelling = Spelling::now);

/// The old one if `BW` is among the cells, or W without any I.
[[nodiscard]] Spelling spelling_of(const std::vector<std::string_view>& cells);

/// The limits of what a cell may name.
inline constexpr std::int64_t stages_most = 4096;
inline constexpr std::int64_t microbatches_most = 32768;

}  // namespace foretrain
