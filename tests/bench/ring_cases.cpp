#include "tests/bench/ring_cases.h"

#include "tests/bench/groups.h"

namespace foretrain::bench {

Job one_all_reduce(std::uint32_t ranks, Bytes size) {
  Job job;
  job.dimensions = {{"dp", false}};
  ProgramBuilder program;
  program.communicate(main_stream, {.label = "call", .op = Collective::all_reduce, .size = size});
  job.programs.push_back(std::move(program).build());
  add_ranks(job, ranks);
  add_group(job, 0, every(0, 1, ranks));
  return job;
}

Measured play_ring_all_reduce(const Fabric& fabric, const Job& job, Fidelity fidelity) {
  SimulateOptions options;
  options.fidelity = fidelity;
  options.forced.algorithm = Algorithm::ring;
  return simulate(fabric, Transport{}, job, options);
}

}  // namespace foretrain::bench
