// The timeline as Chrome trace events, for ui.perfetto.dev and chrome://tracing.
//
// A process a traced rank ("stage 3 (rank 3072)"), a thread a stream. Slices of category "compute", "collective" and
// "p2p" are work in progress, "wait" is a call whose peers have not all arrived; slices of a thread never cross.
// Arrows go from the send of one stage to the receive of another. Counters: memory in use by rank, and the mean
// utilisation of each tier of links, in per cent.
//
// Times are whole nanoseconds, each instant rounded once from picoseconds, so what touches in the simulation touches
// in the trace.
#pragma once

#include <iosfwd>

#include "scenarios/result.h"

namespace foretrain {

/// Requires result.timeline.
void write_trace(std::ostream& out, const Result& result);

}  // namespace foretrain
