#include "tools/output/parts.h"

namespace foretrain {

std::array<BreakdownPart, 10> parts_of(const Breakdown& b) {
  return {{{"compute", "compute", b.compute},
           {"recompute", "recompute", b.recompute},
           {"tp", "waiting for tp", b.tp},
           {"cp", "waiting for cp", b.cp},
           {"ep", "waiting for ep", b.ep},
           {"dp", "waiting for dp", b.dp},
           {"pp", "waiting for pp", b.pp},
           {"bubble", "pipeline bubble", b.bubble},
           {"optimizer", "optimizer", b.optimizer},
           {"other", "other", b.other}}};
}

}  // namespace foretrain
