#include "tools/cli/output_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <boost/iostreams/filter/gzip.hpp>
#include <boost/iostreams/filtering_stream.hpp>
#include <cerrno>
#include <system_error>

#include "scenarios/scenario.h"

namespace foretrain {
namespace {

namespace fs = std::filesystem;
namespace io = boost::iostreams;

[[noreturn]] void cannot_write(const fs::path& path, const std::string& why) {
  throw InputError(fmt::format("cannot write '{}': {}", path.string(), why));
}

std::string system_message(int error) { return std::generic_category().message(error); }

/// A device, a pipe, a socket: something that cannot be renamed onto.
bool is_special(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

fs::path resolved(const fs::path& path) {
  if (path.empty()) cannot_write(path, "the name is empty");
  std::error_code error;
  if (fs::is_directory(path, error)) cannot_write(path, "it is a folder");
  fs::path target = fs::is_symlink(path, error) ? fs::weakly_canonical(path, error) : path;
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  if (!fs::exists(folder, error)) cannot_write(path, fmt::format("there is no folder '{}'", folder.string()));
  if (!fs::is_directory(folder, error)) cannot_write(path, fmt::format("'{}' is no folder", folder.string()));
  return target;
}

fs::path temporary_beside(const fs::path& target) {
  fs::path name = target;
  name.replace_filename(fmt::format(".{}.{}.tmp", target.filename().string(), getpid()));
  return name;
}

void create_temporary(const fs::path& path, const fs::path& target) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) cannot_write(target, system_message(errno));
  ::close(file);
  std::error_code ignored;
  const fs::file_status before = fs::status(target, ignored);
  if (fs::exists(before)) fs::permissions(path, before.permissions(), ignored);
}

/// Waits until the bytes of a file or the names of a folder are on the disk; false with errno set if they are not.
bool sync_path(const fs::path& path, int flags) {
  const int file = ::open(path.c_str(), flags | O_CLOEXEC);
  if (file < 0) return false;
  const bool synced = ::fsync(file) == 0 || errno == EINVAL;  // EINVAL: a file system that has no fsync
  const int error = errno;
  ::close(file);
  errno = error;
  return synced;
}

}  // namespace

OutputFile::OutputFile(const fs::path& path) : target_(path) {
  if (!is_special(path)) {
    target_ = resolved(path);
    temporary_ = temporary_beside(target_);
    create_temporary(temporary_, target_);
  }
  const fs::path& opened = temporary_.empty() ? target_ : temporary_;
  file_.open(opened, std::ios::binary | std::ios::out | std::ios::trunc);
  if (!file_) cannot_write(path, system_message(errno));
  if (path.extension() == ".gz") {
    auto filtered = std::make_unique<io::filtering_ostream>();
    filtered->push(io::gzip_compressor(io::gzip_params()));
    filtered->push(file_);
    compressed_ = std::move(filtered);
  }
}

OutputFile::~OutputFile() {
  compressed_.reset();
  file_.close();
  std::error_code ignored;
  if (!committed_ && !temporary_.empty()) fs::remove(temporary_, ignored);
}

std::ostream& OutputFile::stream() { return compressed_ ? *compressed_ : static_cast<std::ostream&>(file_); }

void OutputFile::commit() {
  const bool written = stream().good();
  compressed_.reset();  // ends the gzip stream
  file_.close();
  if (!written || !file_) cannot_write(target_, "not everything could be written; is the disk full?");
  if (!temporary_.empty()) {
    if (!sync_path(temporary_, O_WRONLY)) cannot_write(target_, system_message(errno));
    std::error_code error;
    fs::rename(temporary_, target_, error);
    if (error) cannot_write(target_, error.message());
    const fs::path folder = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
    sync_path(folder, O_RDONLY | O_DIRECTORY);  // best effort: the file itself is there
  }
  committed_ = true;
}

void check_writable(const fs::path& path) {
  if (is_special(path)) return;
  const OutputFile probe(path);  // made and removed
}

}  // namespace foretrain
