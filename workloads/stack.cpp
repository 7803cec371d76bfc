#include "workloads/stack.h"

namespace foretrain {

std::string_view to_text(Framework framework) {
  switch (framework) {
    case Framework::megatron:
      return "megatron";
    case Framework::deepspeed:
      return "deepspeed";
    case Framework::fsdp:
      return "fsdp";
    case Framework::nanotron:
      return "nanotron";
  }
  return "";
}

}  // namespace foretrain
