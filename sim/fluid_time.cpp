#include <cmath>
#include <stdexcept>

#include "sim/network.h"

namespace foretrain {

// The quotient amount * 1e12 / rate is formed in two doubles, q and a correction that holds what rounding the product
// and the quotient lost (the classical error-free product and division remainder by fused multiply-add), so the
// nearest picosecond is found even where q alone has no fraction bits left. fma is exact on every machine.
Duration fluid_time(double amount, double rate) {
  constexpr double picoseconds_per_second = 1e12;
  const double product = amount * picoseconds_per_second;
  const double product_error = std::fma(amount, picoseconds_per_second, -product);
  const double q = product / rate;
  if (!(q < 0x1p63)) {  // also when q is not a number
    throw std::overflow_error("a transfer takes longer than int64 picoseconds can hold (106 days)");
  }
  const double correction = (std::fma(-q, rate, product) + product_error) / rate;
  const auto whole = static_cast<std::int64_t>(q);  // towards zero; q >= 0
  const double rest = (q - static_cast<double>(whole)) + correction;
  return picoseconds(whole + static_cast<std::int64_t>(std::floor(rest + 0.5)));
}

}  // namespace foretrain
