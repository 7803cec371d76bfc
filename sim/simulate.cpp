#include "sim/simulate.h"

#include <fmt/format.h>

#include "sim/fold.h"
#include "sim/player.h"
#include "sim/quotient.h"

namespace foretrain {

std::string_view to_text(Fidelity fidelity) {
  switch (fidelity) {
    case Fidelity::fluid:
      return "fluid";
    case Fidelity::analytic:
      return "analytic";
    case Fidelity::flows:
      return "flows";
  }
  return "?";
}

Measured simulate(const Fabric& fabric, const Transport& transport, const Job& job, const SimulateOptions& options) {
  if (const std::string wrong = job.check(); !wrong.empty()) throw std::invalid_argument(wrong);
  for (GpuId gpu : job.placement)
    if (gpu.index() >= fabric.gpu_count())
      throw std::invalid_argument(
          fmt::format("a rank is placed on GPU {} of a fabric of {}", gpu.value, fabric.gpu_count()));
  for (RankId rank : options.traced)
    if (rank.index() >= job.ranks.size())
      throw std::invalid_argument(fmt::format("rank {} is to be traced; there are {}", rank.value, job.ranks.size()));
  const Expansion expansion = expand(fabric, transport, job, options);
  const auto play = [&](const Fold& how) {
    return Player(fabric, job, options, expansion, how, quotient(job, expansion, how)).play();
  };
  if (options.fold && options.fidelity != Fidelity::flows) {
    try {
      return play(fold(job, expansion, options.fidelity == Fidelity::fluid));
    } catch (const Deadlock&) {
      // Played again rank by rank, to name all that wait.
    }
  }
  return play(unfolded(job, expansion));
}

}  // namespace foretrain
