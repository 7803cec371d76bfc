// TotalTime: durations added up over ranks and calls. A million ranks fill a Duration (106 days) within seconds.
#pragma once

#include <compare>
#include <cstdint>

#include "topology/units.h"

namespace foretrain {

class TotalTime {
 public:
  constexpr TotalTime() = default;
  constexpr TotalTime(Duration d) : ps_(d.ps()) {}  // NOLINT(google-explicit-constructor): one duration is a total
  /// The same duration so many times.
  constexpr TotalTime(Duration d, std::uint64_t times) : ps_(Wide{d.ps()} * Wide{times}) {}

  [[nodiscard]] constexpr TotalTime times(std::uint64_t n) const {
    TotalTime product;
    product.ps_ = ps_ * Wide{n};
    return product;
  }
  [[nodiscard]] constexpr double seconds() const { return static_cast<double>(ps_) * 1e-12; }
  constexpr TotalTime& operator+=(const TotalTime& other) {
    ps_ += other.ps_;
    return *this;
  }
  constexpr auto operator<=>(const TotalTime&) const = default;
  friend constexpr double operator/(const TotalTime& a, const TotalTime& b) {
    return static_cast<double>(a.ps_) / static_cast<double>(b.ps_);
  }

 private:
  __extension__ typedef __int128 Wide;  // NOLINT(modernize-use-using): __extension__ wants a typedef
  Wide ps_ = 0;
};

}  // namespace foretrain
