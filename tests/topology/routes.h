// Helpers of the tests of routing.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "topology/routing/router.h"

namespace foretrain {

inline std::vector<LinkShare> route(const Router& router, GpuId from, GpuId to, std::uint64_t flow = 0) {
  std::vector<LinkShare> path;
  router.route(from, to, flow, path);
  return path;
}

/// Every vertex's outflow less its inflow.
inline std::map<VertexId, double> balance(const Fabric& fabric, const std::vector<LinkShare>& path) {
  std::map<VertexId, double> net;
  for (const LinkShare& it : path) {
    net[fabric.link(it.link).from] += it.share;
    net[fabric.link(it.link).to] -= it.share;
  }
  return net;
}

/// Links of the way, weighted by their shares.
inline double total(const std::vector<LinkShare>& path) {
  double sum = 0;
  for (const LinkShare& it : path) {
    sum += it.share;
  }
  return sum;
}

inline std::vector<std::string> names(const Fabric& fabric, const std::vector<LinkShare>& path) {
  std::vector<std::string> out;
  out.reserve(path.size());
  for (const LinkShare& it : path) {
    out.push_back(fabric.name(it.link));
  }
  return out;
}

}  // namespace foretrain
