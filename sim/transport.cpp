#include "sim/transport.h"

namespace foretrain {

std::string_view to_text(MeasuredSizes sizes) {
  switch (sizes) {
    case MeasuredSizes::none:
      return "none";
    case MeasuredSizes::large_sizes:
      return "large_sizes";
    case MeasuredSizes::all_sizes:
      return "all_sizes";
  }
  return "?";
}

}  // namespace foretrain
