#include "tests/tools/scratch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/iostreams/copy.hpp>
#include <boost/iostreams/filter/gzip.hpp>
#include <boost/iostreams/filtering_stream.hpp>
#include <fstream>
#include <set>
#include <sstream>

namespace foretrain {

namespace fs = std::filesystem;

Scratch::Scratch() {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  folder_ = fs::temp_directory_path() / ("foretrain-" + std::string(test->name()) + "-" + std::to_string(getpid()));
  fs::create_directories(folder_);
}

Scratch::~Scratch() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::string Scratch::listing() const {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_)) names.insert(entry.path().filename());
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : " ") + name;
  return all;
}

std::string content_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void put(const std::string& file, const std::string& content) { std::ofstream(file, std::ios::binary) << content; }

std::string unzipped(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  boost::iostreams::filtering_istream plain;
  plain.push(boost::iostreams::gzip_decompressor());
  plain.push(in);
  std::ostringstream text;
  boost::iostreams::copy(plain, text);
  return text.str();
}

}  // namespace foretrain
