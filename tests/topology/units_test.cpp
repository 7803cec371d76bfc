// Units: exact in, exact out, and the wrong ones do not compile or parse.
#include "topology/units.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <random>
#include <stdexcept>

namespace foretrain {
namespace {

// --- What must not compile ----------------------------------------------------------------------------------------

template <class A, class B>
concept Addable = requires(A a, B b) {
  a + b;
};
template <class A, class B>
concept Comparable = requires(A a, B b) {
  a < b;
};
template <class A, class B>
concept Divisible = requires(A a, B b) {
  a / b;
};

static_assert(Addable<Duration, Duration> && Addable<Bytes, Bytes> && Addable<Bandwidth, Bandwidth>);
static_assert(Addable<Time, Duration>);
static_assert(!Addable<Bytes, Duration> && !Addable<Duration, Bytes> && !Addable<Bandwidth, Bytes>);
static_assert(!Addable<Time, Time> && !Addable<Time, Bytes>);
static_assert(!Addable<Duration, int> && !Addable<Bytes, int> && !Addable<Bandwidth, double>);
static_assert(!Comparable<Bytes, Duration> && !Comparable<Bandwidth, Bytes> && !Comparable<Time, Duration>);
static_assert(!Comparable<Bandwidth, FlopRate>);
// Only transfer_time divides bytes by bandwidth: it alone knows how to round.
static_assert(!Divisible<Bytes, Bandwidth> && !Divisible<Bytes, Duration>);
static_assert(!std::is_convertible_v<std::int64_t, Bytes> && !std::is_convertible_v<double, Duration>);
static_assert(!std::is_constructible_v<Bandwidth, std::int64_t> && !std::is_constructible_v<Bytes, Duration>);

// --- Parsing ------------------------------------------------------------------------------------------------------

constexpr std::int64_t int64_max = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t int64_min = std::numeric_limits<std::int64_t>::min();

TEST(Units, DurationsOfEveryUnit) {
  EXPECT_EQ(parse_duration("12ps").value, picoseconds(12));
  EXPECT_EQ(parse_duration("1.5us").value, picoseconds(1'500'000));
  EXPECT_EQ(parse_duration("1.5\xC2\xB5s").value, picoseconds(1'500'000));
  EXPECT_EQ(parse_duration("  2 ms ").value, picoseconds(2'000'000'000));
  EXPECT_EQ(parse_duration("700ns").value, picoseconds(700'000));
  EXPECT_EQ(parse_duration("3s").value, picoseconds(3'000'000'000'000));
  EXPECT_EQ(parse_duration("1min").value, parse_duration("60s").value);
  EXPECT_EQ(parse_duration("1.5h").value, parse_duration("90min").value);
  EXPECT_EQ(parse_duration("-1us").value, picoseconds(-1'000'000));
  EXPECT_EQ(parse_duration(".5ns").value, picoseconds(500));
  EXPECT_EQ(parse_duration("5.ns").value, picoseconds(5000));
}

TEST(Units, BytesOfEveryUnit) {
  EXPECT_EQ(parse_bytes("512B").value, bytes(512));
  EXPECT_EQ(parse_bytes("64KiB").value, kibibytes(64));
  EXPECT_EQ(parse_bytes("80GiB").value, gibibytes(80));
  EXPECT_EQ(parse_bytes("80GB").value, bytes(80'000'000'000));
  EXPECT_EQ(parse_bytes("1.5TB").value, bytes(1'500'000'000'000));
  EXPECT_EQ(parse_bytes("0.5KiB").value, bytes(512));
  EXPECT_EQ(parse_bytes("1MB").value, bytes(1'000'000));
  EXPECT_EQ(parse_bytes("2TiB").value, bytes(std::int64_t{2} << 40));
}

TEST(Units, BandwidthsOfEveryUnit) {
  EXPECT_EQ(parse_bandwidth("400Gb/s").value, gigabytes_per_second(50));
  EXPECT_EQ(parse_bandwidth("400Gbps").value, gigabits_per_second(400));
  EXPECT_EQ(parse_bandwidth("50 GB/s").value, bytes_per_second(50'000'000'000));
  EXPECT_EQ(parse_bandwidth("64GiB/s").value, bytes_per_second(std::int64_t{64} << 30));
  EXPECT_EQ(parse_bandwidth("8b/s").value, bytes_per_second(1));
  EXPECT_EQ(parse_bandwidth("1.6Tb/s").value, gigabytes_per_second(200));
  EXPECT_EQ(parse_bandwidth("1TB/s").value, gigabytes_per_second(1000));
  EXPECT_EQ(parse_bandwidth("8Kb/s").value, parse_bandwidth("1KB/s").value);
  EXPECT_EQ(parse_bandwidth("8Mb/s").value, parse_bandwidth("1MB/s").value);
}

TEST(Units, RatesOfComputing) {
  EXPECT_EQ(parse_flop_rate("989TFLOP/s").value, teraflops(989));
  EXPECT_EQ(parse_flop_rate("1.979PFLOP/s").value, teraflops(1979));
  EXPECT_EQ(parse_flop_rate("312TFLOPS").value, flops_per_second(312e12));
  EXPECT_EQ(parse_flop_rate("1GFLOP/s").value, flops_per_second(1e9));
  EXPECT_EQ(parse_flop_rate("2.5FLOP/s").value, flops_per_second(2.5));
}

/// A decimal that binary fractions cannot write must not lose a byte on the way.
TEST(Units, DecimalsAreExact) {
  EXPECT_EQ(parse_bytes("0.3TB").value, bytes(300'000'000'000));
  EXPECT_EQ(parse_bytes("9223372.036854775807TB").value, bytes(int64_max));
  EXPECT_EQ(parse_duration("1.000000000001s").value, picoseconds(1'000'000'000'001));
  EXPECT_EQ(parse_bytes("1.000000000000000000000000000000KB").value, bytes(1000));
  // 2^-40 TiB, 40 decimals: one byte
  EXPECT_EQ(parse_bytes("0.0000000000009094947017729282379150390625TiB").value, bytes(1));
}

/// Both sides of the largest value.
TEST(Units, OverflowIsRefusedAtTheBound) {
  EXPECT_EQ(parse_bytes("9223372036854775807B").value, bytes(int64_max));
  EXPECT_FALSE(parse_bytes("9223372036854775808B").value);
  EXPECT_EQ(parse_bytes("-9223372036854775808B").value, bytes(int64_min));
  EXPECT_FALSE(parse_bytes("-9223372036854775809B").value);
  EXPECT_EQ(parse_bytes("9223372036854775808B").error,
            "'9223372036854775808B' is too large; the most is 9223372036854775807 bytes");
  EXPECT_FALSE(parse_duration("99999999999999999999999999999999999999999999999999h").value);
  EXPECT_FALSE(parse_duration("2562.1h").value);  // 2^63 ps = 2562.047 h
  EXPECT_TRUE(parse_duration("2562h").value);
  EXPECT_FALSE(parse_flop_rate("1" + std::string(400, '0') + "FLOP/s").value);
}

TEST(Units, MessagesSayWhatIsWrongAndWhatIsAllowed) {
  EXPECT_EQ(parse_bandwidth("400").error, "'400' has no unit; write a bandwidth such as 400Gb/s or 50GB/s");
  EXPECT_EQ(parse_bandwidth("64KiB").error,
            "'64KiB' is a number of bytes, not a bandwidth; write a bandwidth such as 400Gb/s or 50GB/s");
  EXPECT_EQ(parse_duration("0.1ps").error,
            "'0.1ps' is not a whole number of picoseconds; write a duration such as 1.5us or 20ms");
  EXPECT_EQ(parse_bandwidth("12Kb/s").error, "");  // 1500 bytes a second
  EXPECT_EQ(parse_bandwidth("12b/s").error,
            "'12b/s' is not a whole number of bytes a second; write a bandwidth such as 400Gb/s or 50GB/s");
  EXPECT_EQ(parse_bytes("80gib").error,
            "'80gib' has an unknown unit 'gib'; allowed: B, KB, MB, GB, TB, KiB, MiB, GiB, TiB (upper and lower case "
            "matter)");
  EXPECT_EQ(parse_bytes("").error, "'' does not begin with a number; write a number of bytes such as 64KiB or 80GB");
  EXPECT_EQ(parse_bytes("lots").error,
            "'lots' does not begin with a number; write a number of bytes such as 64KiB or 80GB");
  EXPECT_EQ(parse_bandwidth("-50GB/s").error, "'-50GB/s' is negative; write a bandwidth such as 400Gb/s or 50GB/s");
  EXPECT_EQ(parse_flop_rate("989").error,
            "'989' has no unit; write a rate of computing such as 989TFLOP/s or 1.979PFLOP/s");
  EXPECT_EQ(parse_flop_rate("50GB/s").error,
            "'50GB/s' is a bandwidth, not a rate of computing; write a rate of computing such as 989TFLOP/s or "
            "1.979PFLOP/s");
  EXPECT_EQ(parse_duration("1\n\xff").error,
            "'1\\x0a\\xff' has an unknown unit '\\x0a\\xff'; allowed: ps, ns, us, ms, s, min, h (upper and lower case "
            "matter)");
}

RC_GTEST_PROP(Units, AnyTextGivesAValueOrAnError, (const std::string& text)) {
  RC_ASSERT(parse_duration(text).value.has_value() == parse_duration(text).error.empty());
  RC_ASSERT(parse_bytes(text).value.has_value() == parse_bytes(text).error.empty());
  RC_ASSERT(parse_bandwidth(text).value.has_value() == parse_bandwidth(text).error.empty());
  RC_ASSERT(parse_flop_rate(text).value.has_value() == parse_flop_rate(text).error.empty());
}

/// Text that is nearly right reaches deeper than random bytes do.
RC_GTEST_PROP(Units, NearlyRightTextGivesAValueOrAnError, ()) {
  const std::string text = *rc::gen::container<std::string>(rc::gen::elementOf(std::string("0159.-+ GKMiBbps/sunh")));
  RC_ASSERT(parse_duration(text).value.has_value() == parse_duration(text).error.empty());
  RC_ASSERT(parse_bytes(text).value.has_value() == parse_bytes(text).error.empty());
  RC_ASSERT(parse_bandwidth(text).value.has_value() == parse_bandwidth(text).error.empty());
}

// --- Printing -----------------------------------------------------------------------------------------------------

TEST(Units, TextIsShort) {
  EXPECT_EQ(to_text(gigabits_per_second(400)), "50GB/s");
  EXPECT_EQ(to_text(bytes_per_second(12'500'000'000)), "12.5GB/s");
  EXPECT_EQ(to_text(gigabytes_per_second(3350)), "3.35TB/s");
  EXPECT_EQ(to_text(picoseconds(1'500'000)), "1.5us");
  EXPECT_EQ(to_text(picoseconds(-1'005'000)), "-1.005us");
  EXPECT_EQ(to_text(Duration{}), "0ps");
  EXPECT_EQ(to_text(kibibytes(64)), "64KiB");
  EXPECT_EQ(to_text(gibibytes(80)), "80GiB");
  EXPECT_EQ(to_text(bytes(1025)), "1025B");
  EXPECT_EQ(to_text(Bytes{}), "0B");
  EXPECT_EQ(to_text(teraflops(989)), "989TFLOP/s");
  EXPECT_EQ(to_text(teraflops(1979)), "1.979PFLOP/s");
  EXPECT_EQ(to_text(flops_per_second(0.5)), "0.5FLOP/s");
}

/// Whole int64 range: random bits, shifted, so that small and large values come equally often.
std::int64_t any_count() {
  const auto shift = *rc::gen::inRange(0, 64);
  const auto bits = *rc::gen::arbitrary<std::uint64_t>();
  return static_cast<std::int64_t>(bits) >> shift;
}

RC_GTEST_PROP(Units, TextParsesBackToTheSame, ()) {
  const std::int64_t n = any_count();
  RC_ASSERT(parse_duration(to_text(picoseconds(n))).value == picoseconds(n));
  RC_ASSERT(parse_bytes(to_text(bytes(n))).value == bytes(n));
  const Bandwidth rate = bytes_per_second(n == int64_min ? int64_max : std::abs(n));
  RC_ASSERT(parse_bandwidth(to_text(rate)).value == rate);
}

RC_GTEST_PROP(Units, RatesOfComputingParseBackToTheSame, ()) {
  const double mantissa = static_cast<double>(*rc::gen::inRange<std::int64_t>(1, std::int64_t{1} << 53));
  const double rate = std::ldexp(mantissa, *rc::gen::inRange(-60, 60));
  RC_ASSERT(parse_flop_rate(to_text(flops_per_second(rate))).value == flops_per_second(rate));
}

TEST(Units, ExtremesParseBackToTheSame) {
  for (const std::int64_t n :
       {int64_min, int64_min + 1, std::int64_t{-1}, std::int64_t{0}, std::int64_t{1}, int64_max}) {
    EXPECT_EQ(parse_duration(to_text(picoseconds(n))).value, picoseconds(n));
    EXPECT_EQ(parse_bytes(to_text(bytes(n))).value, bytes(n));
  }
}

// --- Arithmetic ---------------------------------------------------------------------------------------------------

TEST(Units, RoundsHalvesAwayFromZero) {
  EXPECT_EQ(nanoseconds(0.0005), picoseconds(1));
  EXPECT_EQ(nanoseconds(-0.0005), picoseconds(-1));
  EXPECT_EQ(nanoseconds(0.0004), picoseconds(0));
  EXPECT_EQ(microseconds(1.5), picoseconds(1'500'000));
  EXPECT_EQ(bytes_rounded(2.5), bytes(3));
  EXPECT_EQ(bytes_rounded(-2.5), bytes(-3));
  EXPECT_EQ(scaled(bytes_per_second(3), 0.5), bytes_per_second(2));
}

TEST(Units, WhatDoesNotFitThrows) {
  EXPECT_THROW(static_cast<void>(seconds(1e7)), std::overflow_error);
  EXPECT_THROW(static_cast<void>(seconds(std::numeric_limits<double>::quiet_NaN())), std::overflow_error);
  EXPECT_THROW(static_cast<void>(bytes_rounded(9223372036854775808.0)), std::overflow_error);
  EXPECT_NO_THROW(static_cast<void>(bytes_rounded(9223372036854774784.0)));  // the double before 2^63
}

TEST(Units, TransferTimeIsTheCeiling) {
  EXPECT_EQ(transfer_time(bytes(0), bytes_per_second(1)), Duration{});
  EXPECT_EQ(transfer_time(mebibytes(64), gigabits_per_second(400)), picoseconds((std::int64_t{64} << 20) * 20));
  EXPECT_EQ(transfer_time(bytes(1), bytes_per_second(3)), picoseconds(333'333'333'334));
  EXPECT_EQ(transfer_time(bytes(3), bytes_per_second(3)), picoseconds(1'000'000'000'000));
  // 512 MiB and more, where 32-bit products would wrap
  EXPECT_EQ(transfer_time(gibibytes(512), bytes_per_second(std::int64_t{1} << 39)), picoseconds(1'000'000'000'000));
}

/// The least t with t * rate >= size * 1e12, checked without dividing.
RC_GTEST_PROP(Units, TransferTimeIsTight, ()) {
  __extension__ typedef __int128 Int128;
  const auto size = *rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 42);
  const auto rate = *rc::gen::inRange<std::int64_t>(1'000'000, std::int64_t{1} << 42);
  const Int128 t = transfer_time(bytes(size), bytes_per_second(rate)).ps();
  const Int128 work = static_cast<Int128>(size) * 1'000'000'000'000;
  RC_ASSERT(t * rate >= work);
  RC_ASSERT((t - 1) * rate < work);
}

TEST(Units, TransferTimeRefusesNonsense) {
  EXPECT_THROW(static_cast<void>(transfer_time(bytes(1), bytes_per_second(0))), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(transfer_time(bytes(-1), bytes_per_second(1))), std::invalid_argument);
  // 2^63 ps = 9223372.036854775808 s, so at 1 B/s 9223372 bytes still fit and one more do not.
  EXPECT_NO_THROW(static_cast<void>(transfer_time(bytes(9'223'372), bytes_per_second(1))));
  EXPECT_THROW(static_cast<void>(transfer_time(bytes(9'223'373), bytes_per_second(1))), std::overflow_error);
}

}  // namespace
}  // namespace foretrain
