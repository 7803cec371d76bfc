// Links between switches that carry the same share of every route which divides evenly over all shortest ways.
//
// The switches are refined (topology/refinement.h) from colours that tell every switch with GPUs apart from all others,
// by edges labelled with direction, bandwidth and tier. Take two switches of a class that came out and any destination.
// Both are as far from it: a way of one leads from class to class and has a twin from the other that ends in the same
// class, which is the destination alone. So they have equally many next links on shortest ways, into each class equally
// many; and by induction from the source outwards, which is alone in its class too, switches of a class hold equal
// shares and hand on equal shares over all links from one class to another. (Al-Fares' fat-tree: the switches of one
// pod are a class, as are all cores.)
#pragma once

#include <vector>

#include "topology/routing/switch_graph.h"

namespace foretrain {

/// By link: the first link of the same bandwidth and tier that is loaded the same; itself where there is none.
[[nodiscard]] std::vector<LinkId> links_alike(const SwitchGraph& graph);

}  // namespace foretrain
