// The makers of the algorithms, one a file. `algorithms()` lists them.
#pragma once

#include <memory>

#include "sim/collectives/collective.h"

namespace foretrain {

[[nodiscard]] std::unique_ptr<CollectiveAlgorithm> make_ring();
[[nodiscard]] std::unique_ptr<CollectiveAlgorithm> make_tree();
[[nodiscard]] std::unique_ptr<CollectiveAlgorithm> make_nvls();
[[nodiscard]] std::unique_ptr<CollectiveAlgorithm> make_nvls_tree();
[[nodiscard]] std::unique_ptr<CollectiveAlgorithm> make_pairwise();

}  // namespace foretrain
