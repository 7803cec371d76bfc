// Output files appear whole or not at all.
#include "tools/cli/output_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "scenarios/scenario.h"
#include "tests/tools/scratch.h"

namespace foretrain {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::string& path) {
  try {
    check_writable(path);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(OutputFile, AppearsAtCommitOnly) {
  const Scratch scratch;
  put(scratch / "a.json", "old");
  OutputFile file(scratch / "a.json");
  file.stream() << "new";
  file.stream().flush();
  EXPECT_EQ(content_of(scratch / "a.json"), "old");
  file.commit();
  EXPECT_EQ(content_of(scratch / "a.json"), "new");
  EXPECT_EQ(scratch.listing(), "a.json");
}

TEST(OutputFile, WithoutCommitNothingChanges) {
  const Scratch scratch;
  put(scratch / "a.json", "old");
  {
    OutputFile file(scratch / "a.json");
    file.stream() << "half of";
  }
  EXPECT_EQ(content_of(scratch / "a.json"), "old");
  { OutputFile other(scratch / "b.json"); }
  EXPECT_EQ(scratch.listing(), "a.json");
}

TEST(OutputFile, CheckingLeavesNothingBehind) {
  const Scratch scratch;
  check_writable(scratch / "a.json");
  EXPECT_EQ(scratch.listing(), "");
}

TEST(OutputFile, CompressesByName) {
  const Scratch scratch;
  const std::string text(100'000, 'x');
  for (const char* name : {"one.gz", "two.gz"}) {
    OutputFile file(scratch / name);
    file.stream() << text;
    file.commit();
  }
  EXPECT_EQ(unzipped(scratch / "one.gz"), text);
  EXPECT_LT(content_of(scratch / "one.gz").size(), text.size() / 100);
  EXPECT_EQ(content_of(scratch / "one.gz"), content_of(scratch / "two.gz"));
  EXPECT_EQ(content_of(scratch / "one.gz").substr(4, 4), std::string(4, '\0')) << "gzip header: no date";
}

TEST(OutputFile, KeepsPermissionsAndLinks) {
  const Scratch scratch;
  put(scratch / "real", "old");
  std::filesystem::permissions(scratch / "real", std::filesystem::perms{0600});
  std::filesystem::create_symlink("real", scratch / "link");
  OutputFile file(scratch / "link");
  file.stream() << "new";
  file.commit();
  EXPECT_TRUE(std::filesystem::is_symlink(scratch / "link"));
  EXPECT_EQ(content_of(scratch / "real"), "new");
  EXPECT_EQ(std::filesystem::status(scratch / "real").permissions(), std::filesystem::perms{0600});
}

TEST(OutputFile, SaysWhatIsInTheWay) {
  const Scratch scratch;
  put(scratch / "file", "");
  EXPECT_EQ(refusal(scratch / "none/a.json"),
            "cannot write '" + (scratch / "none/a.json") + "': there is no folder '" + (scratch / "none") + "'");
  EXPECT_EQ(refusal(scratch.folder().string()), "cannot write '" + scratch.folder().string() + "': it is a folder");
  EXPECT_THAT(refusal(scratch / "file/a.json"), HasSubstr("is no folder"));
  EXPECT_EQ(refusal(""), "cannot write '': the name is empty");
  EXPECT_EQ(refusal("/dev/null"), "");
}

TEST(OutputFile, ReportsAFullDisk) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  OutputFile file("/dev/full");
  file.stream() << std::string(1 << 20, 'x');
  EXPECT_THROW(file.commit(), InputError);
}

}  // namespace
}  // namespace foretrain
