// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <optional>

#include "harness/record/record.h"
#include "tests/record/sample_records.h"

namespace commfuse {
namespace {

namespace fs = std::filesystem;

Record with_id(const std::string& id, Outcome outcome = Outcome::ok) {
  Record record = test::unmeasured_record("plain", outcome, "");
  record.id = id;
  return record;
}

std::vector<std::string> ids(const RecordWriter& writer) {
  std::vector<std::string> all;
  for (const auto& record : writer.finished()) all.push_back(record.id);
  return all;
}

class RecordFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "commfuse-record-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = folder_ / "results.jsonl";
  }
  void TearDown() override { fs::remove_all(folder_); }

  void put(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }
  [[nodiscard]] std::string contents() const {
    std::ifstream stream(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  [[nodiscard]] std::string refusal(bool resume) const {
    try {
      RecordWriter writer(path_, resume);
    } catch (const RecordFileError& error) {
      return error.what();
    }
    return "";
  }

  fs::path folder_;
  fs::path path_;
};

TEST_F(RecordFile, OneLineARecord) {
  {
    RecordWriter writer(path_, false);
    writer.write(with_id("a"));
    EXPECT_EQ(read_records(path_).size(), 1U);  // there at once, not when the writer closes
    writer.write(with_id("b"));
    EXPECT_TRUE(writer.finished().empty());
  }
  EXPECT_EQ(contents(), to_line(with_id("a")) + "\n" + to_line(with_id("b")) + "\n");
}

TEST_F(RecordFile, IsNeverOverwritten) {
  put("precious\n");
  EXPECT_EQ(refusal(false),
            path_.string() + ": exists already; name another file, or go on with --resume");
  EXPECT_EQ(contents(), "precious\n");
}

TEST_F(RecordFile, SaysWhyItCannotBeOpened) {
  path_ = folder_ / "missing" / "results.jsonl";
  EXPECT_EQ(refusal(false), path_.string() + ": No such file or directory");
  path_ = folder_;
  EXPECT_EQ(refusal(true), path_.string() + ": Is a directory");
  path_ = "/dev/full";
  EXPECT_EQ(refusal(true), "/dev/full: is not a regular file");
}

TEST_F(RecordFile, case_A6_leaves_no_empty_file) {
  { RecordWriter writer(path_, false); }
  EXPECT_FALSE(fs::exists(path_));
  put("");
  { RecordWriter writer(path_, true); }
  EXPECT_TRUE(fs::exists(path_));  // not ours to remove
}

TEST_F(RecordFile, HasOneWriterAtATime) {
  RecordWriter writer(path_, false);
  EXPECT_EQ(refusal(true), path_.string() + ": is being written by another process");
}

TEST_F(RecordFile, ResumingANewFileStartsIt) {
  RecordWriter writer(path_, true);
  writer.write(with_id("a"));
  EXPECT_EQ(read_records(path_).size(), 1U);
}

TEST_F(RecordFile, ResumingRunsOnlyFailedCasesAgain) {
  {
    RecordWriter writer(path_, false);
    writer.write(with_id("ok", Outcome::ok));
    writer.write(with_id("skipped", Outcome::skipped));
    writer.write(with_id("wrong", Outcome::wrong));
    writer.write(with_id("failed", Outcome::failed));
    writer.write(with_id("failed, then ok", Outcome::failed));
    writer.write(with_id("failed, then ok", Outcome::ok));
  }
  RecordWriter writer(path_, true);
  EXPECT_EQ(ids(writer), (std::vector<std::string>{"ok", "skipped", "wrong", "failed, then ok"}));
  EXPECT_EQ(writer.finished()[2].outcome, Outcome::wrong);
  EXPECT_FALSE(writer.finished()[0].timed);
}

TEST_F(RecordFile, ResumingCutsATornLine) {
  const std::string whole = to_line(with_id("a")) + "\n";
  put(whole + to_line(with_id("b")).substr(0, 100));
  RecordWriter writer(path_, true);
  EXPECT_EQ(ids(writer), std::vector<std::string>{"a"});
  EXPECT_EQ(contents(), whole);
  writer.write(with_id("b"));
  EXPECT_EQ(contents(), whole + to_line(with_id("b")) + "\n");
}

TEST_F(RecordFile, ResumingKeepsAWholeLineWithoutItsNewline) {
  put(to_line(with_id("a")));
  RecordWriter writer(path_, true);
  EXPECT_EQ(ids(writer), std::vector<std::string>{"a"});
  EXPECT_EQ(contents(), to_line(with_id("a")) + "\n");
}

TEST_F(RecordFile, ResumingRefusesWhatIsNoRecordFile) {
  put("{\"schema\": 9}\n");
  EXPECT_EQ(refusal(true),
            path_.string() + ": line 1: unknown record schema 9; this program reads schema 1");
  put("hello\nworld\n");
  EXPECT_EQ(refusal(true), path_.string() + ": line 1 is not JSON");
  EXPECT_EQ(contents(), "hello\nworld\n");
  put("precious");  // without a newline it is still no torn record
  EXPECT_EQ(refusal(true), path_.string() + ": line 1 is not JSON");
  EXPECT_EQ(contents(), "precious");
}

/// A file size limit, as a full disk would be: the first write is short, the next one fails.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::uintmax_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_);
    rlimit limit = old_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*old_handler_)(int);
  rlimit old_{};
};

TEST_F(RecordFile, AFullDiskIsNamedAndLeavesNoTornLine) {
  RecordWriter writer(path_, false);
  writer.write(with_id("a"));
  const std::string before = contents();
  for (const std::uintmax_t room : {0, 20}) {
    std::string reason;
    {
      const FileSizeLimit limit(before.size() + room);
      try {
        writer.write(with_id("b"));
      } catch (const std::runtime_error& error) {
        reason = error.what();
      }
    }
    EXPECT_EQ(reason, path_.string() + ": record not written: File too large") << room;
    EXPECT_EQ(contents(), before) << room;
  }
  writer.write(with_id("b"));
  EXPECT_EQ(contents(), before + to_line(with_id("b")) + "\n");
}

TEST_F(RecordFile, ReadingReportsATornLine) {
  put(to_line(with_id("a")) + "\n" + "{\"schema\": 1, \"id");
  std::string warning;
  EXPECT_EQ(read_records(path_, &warning).size(), 1U);
  EXPECT_EQ(warning, path_.string() + ": the last line is torn and was left out");
  EXPECT_EQ(read_records(path_).size(), 1U);
}

TEST_F(RecordFile, ReadingClearsTheWarningAndSkipsEmptyLines) {
  put(to_line(with_id("a")) + "\n\n" + to_line(with_id("b")));
  std::string warning = "old";
  EXPECT_EQ(read_records(path_, &warning).size(), 2U);
  EXPECT_EQ(warning, "");
  put("");
  EXPECT_TRUE(read_records(path_).empty());
}

TEST_F(RecordFile, ReadingNamesABadLine) {
  const auto refused = [this] {
    try {
      read_records(path_);
    } catch (const RecordFileError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  put(to_line(with_id("a")) + "\n{\n" + to_line(with_id("b")) + "\n");
  EXPECT_EQ(refused(), path_.string() + ": line 2 is not JSON");
  put(to_line(with_id("a")) + "\n{\"schema\": 1}\n");
  EXPECT_EQ(refused(), path_.string() + ": line 2: field 'id' is missing");
  put("[1, 2]\n");
  EXPECT_EQ(refused(), path_.string() + ": line 1: the record is no JSON object");
  path_ = folder_ / "none.jsonl";
  EXPECT_EQ(refused(), path_.string() + ": No such file or directory");
  path_ = folder_;
  EXPECT_EQ(refused(), path_.string() + ": is a directory");
}

TEST_F(RecordFile, ReadingRefusesASecondTimeOfOneCase) {
  Record timed = with_id("a");
  timed.samples.max_over_ranks = {1};
  put(to_line(timed) + "\n\n" + to_line(with_id("b")) + "\n" + to_line(timed) + "\n");
  try {
    read_records(path_);
    ADD_FAILURE();
  } catch (const RecordFileError& error) {
    EXPECT_EQ(error.what(), path_.string() + ": line 4: has the id of line 1 again: a");
  }
}

TEST_F(RecordFile, ReadingLeavesOutWhatWasRunAgain) {
  put(to_line(with_id("a", Outcome::failed)) + "\n" + to_line(with_id("b", Outcome::failed)) +
      "\n" + to_line(with_id("a", Outcome::failed)) + "\n" + to_line(with_id("a", Outcome::ok)) +
      "\n" + to_line(with_id("a", Outcome::ok)) + "\n");  // checked only, then timed
  const std::vector<Record> records = read_records(path_);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].id, "b");
  EXPECT_EQ(records[0].outcome, Outcome::failed);
  EXPECT_EQ(records[1].id, "a");
  EXPECT_EQ(records[1].outcome, Outcome::ok);
}

}  // namespace
}  // namespace commfuse
