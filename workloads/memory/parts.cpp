#include "workloads/memory/parts.h"

namespace foretrain {

std::string_view to_text(MemoryPart part) {
  switch (part) {
    case MemoryPart::parameters:
      return "parameters";
    case MemoryPart::gradients:
      return "gradients";
    case MemoryPart::optimizer:
      return "optimizer";
    case MemoryPart::activations:
      return "activations";
    case MemoryPart::buffers:
      return "buffers";
    case MemoryPart::overhead:
      return "overhead";
  }
  return "";
}

}  // namespace foretrain
