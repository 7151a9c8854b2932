// SPDX-License-Identifier: Apache-2.0
// A folder that stands for "/", with the files that a test writes.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace commfuse::fake {

class MadeUpRoot {
 public:
  MadeUpRoot() {
    std::string pattern = (std::filesystem::temp_directory_path() / "commfuse-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no folder for a test");
    path_ = pattern;
  }
  ~MadeUpRoot() { std::filesystem::remove_all(path_); }
  MadeUpRoot(const MadeUpRoot&) = delete;
  MadeUpRoot& operator=(const MadeUpRoot&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  void write(const std::string& name, std::string_view text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace commfuse::fake
