// A folder of a test's own, removed with all that is in it.
#pragma once

#include <filesystem>
#include <string>

namespace foretrain {

class Scratch {
 public:
  Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return (folder_ / name).string(); }
  /// Names in the folder, sorted, separated by blanks.
  [[nodiscard]] std::string listing() const;

 private:
  std::filesystem::path folder_;
};

[[nodiscard]] std::string content_of(const std::string& file);
void put(const std::string& file, const std::string& content);
[[nodiscard]] std::string unzipped(const std::string& file);

}  // namespace foretrain
