// OutputFile: a file that appears whole or not at all.
//
//   check_writable("out/result.json");            // before the long work
//   OutputFile file("out/result.json");
//   file.stream() << text;
//   file.commit();                                // flushed, synced, renamed into place
//
// What is written goes to a temporary file in the same folder; without `commit` it is removed and what stood there
// before is untouched. A name that ends in .gz is compressed (no date or name in its header: same content, same bytes).
// A device or a pipe (/dev/null, /dev/stdout) is written directly.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <ostream>

namespace foretrain {

class OutputFile {
 public:
  /// Throws InputError that names the file and what is in the way.
  explicit OutputFile(const std::filesystem::path& path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  [[nodiscard]] std::ostream& stream();
  /// Throws InputError when not everything could be written.
  void commit();

 private:
  std::filesystem::path target_;     ///< symbolic links resolved
  std::filesystem::path temporary_;  ///< empty: written directly
  std::ofstream file_;
  std::unique_ptr<std::ostream> compressed_;
  bool committed_ = false;
};

/// Throws InputError if `path` cannot become a file: no such folder, no permission, a folder of that name.
void check_writable(const std::filesystem::path& path);

}  // namespace foretrain
