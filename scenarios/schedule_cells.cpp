#include "scenarios/schedule_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "scenarios/problems.h"

namespace foretrain {
namespace {

constexpr std::string_view digits = "0123456789";
constexpr std::string_view old_whole_backward = "BW";

bool has_microbatch(RuntimePass pass) { return pass < RuntimePass::unshard; }

/// Takes a whole number below `end` off the front of `text`.
std::optional<std::int64_t> take_number(std::string_view& text, std::int64_t end) {
  std::int64_t value = 0;
  const std::size_t length = std::min(text.find_first_not_of(digits), text.size());
  const auto [stop, error] = std::from_chars(text.data(), text.data() + length, value);
  if (length == 0 || error != std::errc{} || stop != text.data() + length || value >= end) return std::nullopt;
  text.remove_prefix(length);
  return value;
}

std::optional<RuntimePass> pass_named(std::string_view name, Spelling spelling) {
  if (spelling == Spelling::old && name == old_whole_backward) return RuntimePass::backward;
  if (spelling == Spelling::old && name == "B") return RuntimePass::backward_input;
  for (const RuntimePassName& known : runtime_pass_names)
    if (known.name == name) return known.pass;
  return std::nullopt;
}

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const RuntimePassName& known : runtime_pass_names) names.emplace_back(known.name);
  return names;
}

std::string_view name_in(std::string_view cell) {
  cell.remove_prefix(std::min(cell.find_first_not_of(digits), cell.size()));
  return cell.substr(0, cell.find_first_of(digits));
}

std::string unreadable(std::string_view cell) {
  return fmt::format(
      "found '{}'{}; allowed: STAGE ACTION MICROBATCH as in 2F0, with F, B, I, W, SEND_F, RECV_F, SEND_B, RECV_B; or "
      "as in 2UNSHARD, with UNSHARD, RESHARD, REDUCE_GRAD; or (0F7;7B3){}; stages below {}, microbatches below {}",
      shown(cell), suggestion(name_in(cell), pass_names()), overlap_name, stages_most, microbatches_most);
}

std::optional<RuntimeAction> read_action(std::string_view cell, Spelling spelling) {
  const auto stage = take_number(cell, stages_most);
  if (!stage) return std::nullopt;
  const std::string_view name = cell.substr(0, cell.find_first_of(digits));
  cell.remove_prefix(name.size());
  const auto pass = pass_named(name, spelling);
  if (!pass) return std::nullopt;
  RuntimeAction action{*pass, *stage, std::nullopt, false};
  if (has_microbatch(*pass)) {
    const auto microbatch = take_number(cell, microbatches_most);
    if (!microbatch) return std::nullopt;
    action.microbatch = static_cast<std::int32_t>(*microbatch);
  }
  if (!cell.empty()) return std::nullopt;
  return action;
}

/// "(0F7;7B3)OVERLAP_F_B"
ReadCell read_block(std::string_view cell, Spelling spelling) {
  const auto semicolon = cell.find(';');
  const auto close = cell.find(')');
  if (semicolon > close || close == std::string_view::npos || cell.substr(close + 1) != overlap_name)
    return {{}, unreadable(cell)};
  auto first = read_action(cell.substr(1, semicolon - 1), spelling);
  const auto second = read_action(cell.substr(semicolon + 1, close - semicolon - 1), spelling);
  if (!first || !second) return {{}, unreadable(cell)};
  const bool pair = first->pass == RuntimePass::forward &&
                    (second->pass == RuntimePass::backward || second->pass == RuntimePass::backward_input);
  if (!pair) {
    return {{}, fmt::format("found '{}'; allowed in an overlapped block: a forward, then a backward", shown(cell))};
  }
  first->with_next = true;
  return {{*first, *second}, {}};
}

}  // namespace

ReadCell read_cell(std::string_view cell, Spelling spelling) {
  if (cell.empty()) return {};
  if (cell.front() == '(') return read_block(cell, spelling);
  if (const auto action = read_action(cell, spelling)) return {{*action}, {}};
  return {{}, unreadable(cell)};
}

Spelling spelling_of(const std::vector<std::string_view>& cells) {
  const auto any = [&](std::string_view name) {
    return std::any_of(cells.begin(), cells.end(), [&](std::string_view cell) { return name_in(cell) == name; });
  };
  return any(old_whole_backward) || (any("W") && !any("I")) ? Spelling::old : Spelling::now;
}

}  // namespace foretrain
