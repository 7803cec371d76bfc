#include "sim/communicator.h"

namespace foretrain {

std::string_view to_text(Collective op) {
  switch (op) {
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::all_gather:
      return "all_gather";
    case Collective::reduce_scatter:
      return "reduce_scatter";
    case Collective::broadcast:
      return "broadcast";
    case Collective::reduce:
      return "reduce";
    case Collective::all_to_all:
      return "all_to_all";
    case Collective::send_recv:
      return "send_recv";
    case Collective::gather:
      return "gather";
    case Collective::scatter:
      return "scatter";
    case Collective::barrier:
      return "barrier";
    case Collective::all_to_allv:
      return "all_to_allv";
    case Collective::all_to_allv_back:
      return "all_to_allv_back";
    case Collective::shift:
      return "shift";
  }
  return "?";
}

double busbw_factor(Collective op, std::size_t ranks) {
  const double n = static_cast<double>(ranks);
  if (ranks == 0) return 0;
  switch (op) {
    case Collective::all_reduce:
      return 2 * (n - 1) / n;
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
    case Collective::all_to_allv:
    case Collective::all_to_allv_back:
    case Collective::gather:
    case Collective::scatter:
      return (n - 1) / n;
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::send_recv:
    case Collective::shift:
      return 1;
    case Collective::barrier:
      return 0;
  }
  return 1;
}

std::string_view to_text(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::ring:
      return "ring";
    case Algorithm::tree:
      return "tree";
    case Algorithm::nvls:
      return "nvls";
    case Algorithm::nvls_tree:
      return "nvls_tree";
    case Algorithm::pairwise:
      return "pairwise";
    case Algorithm::collnet:
      return "collnet";
    case Algorithm::nvls_sharp:
      return "nvls_sharp";
    case Algorithm::pat:
      return "pat";
    case Algorithm::halving_doubling:
      return "halving_doubling";
    case Algorithm::hierarchical:
      return "hierarchical";
    case Algorithm::two_hop:
      return "two_hop";
    case Algorithm::torus_ring:
      return "torus_ring";
  }
  return "?";
}

std::string_view to_text(Protocol protocol) {
  switch (protocol) {
    case Protocol::ll:
      return "ll";
    case Protocol::ll128:
      return "ll128";
    case Protocol::simple:
      return "simple";
  }
  return "?";
}

}  // namespace foretrain
