// Small text: numbers for people, message sizes.
#include <gtest/gtest.h>

#include <limits>

#include "tools/cli/size.h"
#include "tools/output/human.h"

namespace foretrain {
namespace {

TEST(Human, ThreeSignificantDigits) {
  EXPECT_EQ(significant(12.345), "12.3");
  EXPECT_EQ(significant(0.045123), "0.0451");
  EXPECT_EQ(significant(1234.5), "1234");  // no exponent, no invented zeros
  EXPECT_EQ(significant(0), "0");
  EXPECT_EQ(significant(std::numeric_limits<double>::quiet_NaN()), "-");
}

TEST(Human, RoundingUpMovesToTheNextPlace) {
  EXPECT_EQ(significant(9.996), "10.0");
  EXPECT_EQ(human_seconds(0.9996), "0.9996 s");
  EXPECT_EQ(human_seconds(0.9994), "999 ms");
  EXPECT_EQ(human_count(999'600), "1.00 M");
}

TEST(Human, Units) {
  EXPECT_EQ(human_seconds(12.34), "12.34 s");
  EXPECT_EQ(human_seconds(1.25e-6), "1.25 us");
  EXPECT_EQ(human_seconds(7e-9), "7.00 ns");
  EXPECT_EQ(human_bytes(64.0 * 1024 * 1024), "64.0 MiB");
  EXPECT_EQ(human_bytes(8), "8 B");
  EXPECT_EQ(human_rate(350e9), "350 GB/s");
  EXPECT_EQ(human_count(16), "16");
  EXPECT_EQ(human_percent(0.412), "41.2 %");
  EXPECT_EQ(clipped("abcdef", 5), "abc..");
  EXPECT_EQ(clipped("abcde", 5), "abcde");
}

TEST(Human, Grouped) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(-1234567), "-1,234,567");
}

TEST(Size, ReadsNcclTestsSpelling) {
  EXPECT_EQ(parse_size("8").value, bytes(8));
  EXPECT_EQ(parse_size("1K").value, kibibytes(1));
  EXPECT_EQ(parse_size("0.5M").value, kibibytes(512));
  EXPECT_EQ(parse_size("1g").value, gibibytes(1));
  EXPECT_EQ(parse_size("64MiB").value, mebibytes(64));
}

TEST(Size, RefusesTheRest) {
  for (const char* text : {"", "0", "-8", "1.5", "8X", "K", "nan", "inf", "1e300", "8 K", "0B"}) {
    EXPECT_FALSE(parse_size(text).value) << text;
  }
  EXPECT_EQ(parse_size("8X").error,
            "'8X' is no message size; allowed: a positive number of bytes, as 8, 1K, 64M, 1G or 64MiB");
}

}  // namespace
}  // namespace foretrain
