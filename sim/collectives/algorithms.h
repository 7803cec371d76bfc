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
[[nodiscard]] std::unique_ptr<CollectiveAlgorithm> make_collnet();
[[nodiscard]] std::unique_ptr<CollectiveAlgorithm> make_nvls_sharp();
[[nodiscard]] std::unique_ptr<CollectiveAlgorithm> make_pat();
[[nodiscard]] std::unique_ptr<CollectiveAlgorithm> make_halving_doubling();
[[nodiscard]] std::unique_ptr<CollectiveAlgorithm> make_hierarchical();
[[nodiscard]] std::unique_ptr<CollectiveAlgorithm> make_two_hop();
[[nodiscard]] std::unique_ptr<CollectiveAlgorithm> make_torus_ring();

}  // namespace foretrain
