// Fuzzes the reader of schedule CSV: a text is refused with a printable message, or is a schedule that verifies and
// comes back from its own CSV.
#include <cstddef>
#include <cstdint>

#include "scenarios/schedule_file.h"
#include "tests/fuzz/scenario_property.h"
#include "workloads/schedules/runtime.h"
#include "workloads/schedules/schedule.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foretrain;  // NOLINT(google-build-using-namespace)
  Problems problems;
  const auto read = [&](const std::string& text) {
    return read_schedule_text(problems.source("fuzz.csv", text, ""), "", problems);
  };
  const auto listed = read(std::string(data, data + size));
  require((listed == nullptr) != problems.empty());
  if (!listed) {
    require(printable(problems.text()));
    return 0;
  }
  require(verify(listed->lists, listed->shape).empty());
  const std::string written = to_csv(compute_only(listed->lists, listed->shape));
  const auto back = read(written);
  require(back && to_csv(compute_only(back->lists, back->shape)) == written);
  return 0;
}
