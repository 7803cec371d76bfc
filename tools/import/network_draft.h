// NetworkDraft: a network as a file lists it, hosts by their NICs and switches, to be completed to a fabric: servers
// get GPUs, switches get roles by their distance from the hosts.
//
//   NetworkDraft draft(input);
//   auto leaf = draft.add_switch("leaf1", offset);
//   auto nic = draft.add_nic(draft.host("node1"), "mlx5_0", offset);
//   draft.connect(nic, leaf, gigabits_per_second(400), 1);
//   Imported imported = draft.finish(options, notes);
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tools/import/import.h"
#include "tools/import/servers.h"

namespace foretrain {

class NetworkDraft {
 public:
  using Point = std::uint32_t;  ///< a NIC or a switch
  using Host = std::uint32_t;

  explicit NetworkDraft(const InputText& input) : input_(input) {}

  /// Points beyond the limits of a graph are a mistake at `offset`.
  Point add_switch(std::string_view name, std::size_t offset);
  Point add_nic(Host host, std::string_view name, std::size_t offset);
  /// The host of that name, made on first use.
  Host host(std::string_view name);
  /// `count` cables of `each` a direction.
  void connect(Point a, Point b, Bandwidth each, std::uint32_t count, std::size_t offset);

  [[nodiscard]] std::size_t host_count() const { return hosts_.size(); }
  [[nodiscard]] bool is_switch(Point p) const { return points_[p].host == no_host; }

  /// The fabric; throws InputError when the hosts are in separate networks (unless options.join), or are too many.
  [[nodiscard]] Imported finish(const ImportOptions& options, std::vector<std::string> notes);

 private:
  static constexpr Host no_host = ~Host{0};
  struct PointData {
    std::string name;
    Host host = no_host;
    std::size_t offset = 0;
    std::uint32_t distance = 0;  ///< of a switch from the nearest host; 1 = leaf
    bool kept = false;
  };
  struct HostData {
    std::string name;
    std::vector<Point> nics;
  };
  struct Cable {
    Point a = 0, b = 0;
    Bandwidth each;
    std::uint32_t count = 1;
  };
  class Emitter;

  Point add(PointData point);
  void choose_hosts(const ImportOptions& options, std::vector<std::string>& notes);
  void measure_distances();
  /// One switch of each separate network that holds hosts, the one furthest from them.
  [[nodiscard]] std::vector<Point> tops() const;
  void join_networks(const ImportOptions& options, std::vector<std::string>& notes);
  void drop_lonely_switches(std::vector<std::string>& notes);
  [[nodiscard]] std::uint32_t usual_nics() const;
  [[nodiscard]] std::vector<std::vector<Point>> neighbours() const;

  const InputText& input_;
  std::vector<PointData> points_;
  std::vector<HostData> hosts_;
  std::unordered_map<std::string, Host> host_of_;
  std::vector<Cable> cables_;
  std::size_t cable_count_ = 0;
};

}  // namespace foretrain
