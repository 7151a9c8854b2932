// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/cost_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>

#include "suite/error.h"

namespace commfuse {
namespace {

using Json = nlohmann::ordered_json;

class CostFiles : public testing::Test {
 protected:
  CostFiles() { std::filesystem::create_directory(folder_); }
  ~CostFiles() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const char* name = "costs.json") const { return folder_ / name; }
  void put(const std::string& text) const { std::ofstream(path()) << text; }

  /// The message without the path.
  [[nodiscard]] std::string error_of(const std::string& text) const {
    put(text);
    try {
      (void)read_costs(path());
    } catch (const UsageError& error) {
      const std::string message = error.what();
      EXPECT_TRUE(message.starts_with(path() + " is no file of costs: ")) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos);
      return message.substr(std::min(message.size(), path().size() + 22));
    }
    return "no error";
  }
  [[nodiscard]] std::string error_after(const std::function<void(Json&)>& change) const {
    Json json = to_json(file());
    change(json);
    return error_of(json.dump());
  }

  static CostFile file() {
    CostFile file{{{"host", "node1"}}, "thread CPU time", "2026-01-02T03:04:05Z", "abc", {}};
    file.costs[{"gemm", "bf16 NT + D", {512, 4096, 1024}}] = {1234.5, 80, 0.01};
    file.costs[{"copy", "bf16", {512, 64, 0}}] = {10, 3, 0};
    file.costs[{"accumulate", "fp32", {8, 8, 3}}] = {0, 1, 0};
    return file;
  }

 private:
  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("costs." + std::to_string(getpid()));
};

TEST_F(CostFiles, AreReadAsTheyWereWritten) {
  write_costs(path(), file());
  const CostFile again = read_costs(path());
  EXPECT_EQ(again.costs, file().costs);
  EXPECT_EQ(again.machine, file().machine);
  EXPECT_EQ(again.clock, file().clock);
  EXPECT_EQ(again.time, file().time);
  EXPECT_EQ(again.commit, file().commit);
  write_costs(path(), again);  // what is there is replaced, and nothing is left beside it
  EXPECT_EQ(
      std::distance(
          std::filesystem::directory_iterator(std::filesystem::path(path()).parent_path()), {}),
      1);
}

TEST_F(CostFiles, NameTheSizesOfAnOp) {
  const Json json = to_json(file());
  EXPECT_EQ(json["ops"][2].dump(),
            R"({"op":{"kind":"gemm","how":"bf16 NT + D","m":512,"n":4096,"k":1024},)"
            R"("ns":1234.5,"count":80,"spread":0.01})");
  EXPECT_EQ(json["ops"][1]["op"].dump(), R"({"kind":"copy","how":"bf16","rows":512,"cols":64})");
}

TEST_F(CostFiles, OfWhichOnlyAPartIsThereAreRefused) {
  const std::string whole = to_json(file()).dump();
  EXPECT_EQ(error_of(whole.substr(0, whole.size() - 5)), "no whole JSON object");
  EXPECT_EQ(error_of(""), "no whole JSON object");
  EXPECT_EQ(error_of("[]"), "'schema' is missing");
  for (const char* field : {"schema", "machine", "clock", "time", "commit", "ops"}) {
    EXPECT_EQ(error_after([&](Json& json) { json.erase(field); }),
              "'" + std::string(field) + "' is missing");
  }
  for (const char* field : {"op", "ns", "count", "spread"}) {
    EXPECT_EQ(error_after([&](Json& json) { json["ops"][1].erase(field); }),
              "ops[1]: '" + std::string(field) + "' is missing");
  }
  for (const char* field : {"kind", "how", "m", "n", "k"}) {
    EXPECT_EQ(error_after([&](Json& json) { json["ops"][2]["op"].erase(field); }),
              "ops[2]: '" + std::string(field) + "' is missing");
  }
}

TEST_F(CostFiles, WithValuesThatMakeNoSenseAreRefused) {
  EXPECT_EQ(error_after([](Json& json) { json["schema"] = 2; }),
            "its schema is 2, this program knows 1");
  EXPECT_EQ(error_after([](Json& json) { json["ops"][0]["ns"] = -1; }),
            "ops[0]: 'ns' is -1, not a finite number from 0 on");
  EXPECT_EQ(error_after([](Json& json) { json["ops"][0]["ns"] = nullptr; }),
            "ops[0]: 'ns' is no number");
  EXPECT_EQ(error_after([](Json& json) { json["ops"][0]["ns"] = 1e-300; }),
            "ops[0]: 'ns' is 1e-300, less than a picosecond");
  EXPECT_EQ(error_after([](Json& json) { json["ops"][0]["count"] = 0; }),
            "ops[0]: 'count' is 0, not a whole number from 1 on");
  EXPECT_EQ(error_after([](Json& json) { json["ops"][2]["op"]["m"] = 1.5; }),
            "ops[2]: 'm' is 1.5, not a whole number from 1 on");
  EXPECT_EQ(error_after([](Json& json) { json["ops"][2]["op"]["kind"] = "fft"; }),
            "ops[2]: there is no op 'fft'");
  EXPECT_EQ(error_after([](Json& json) { json["ops"].push_back(json["ops"][1]); }),
            "ops[3]: copy 512x64 bf16 occurs twice");
  EXPECT_EQ(error_after([](Json& json) { json["ops"] = 3; }), "'ops' is no list");
  EXPECT_EQ(error_after([](Json& json) { json["machine"] = "mine"; }), "'machine' is no object");
  std::string huge = to_json(file()).dump();
  huge.replace(huge.find("1234.5"), 6, "1e999");
  EXPECT_EQ(error_of(huge), "no whole JSON object");
}

TEST_F(CostFiles, ThatCannotBeUsedAreNamed) {
  const auto refused = [](const auto& action) -> std::string {
    try {
      action();
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(refused([&] { (void)read_costs(path("nowhere")); }),
            path("nowhere") + " cannot be read: No such file or directory");
  EXPECT_EQ(refused([&] { (void)read_costs(testing::TempDir()); }),
            testing::TempDir() + " cannot be read: Is a directory");
  EXPECT_EQ(refused([] { (void)read_costs("/dev/zero"); }),
            "/dev/zero cannot be read: it is no file");
  const std::string deep = path("nowhere") + "/costs.json";
  EXPECT_EQ(refused([&] { write_costs(deep, file()); }),
            deep + " cannot be written: No such file or directory");
}

}  // namespace
}  // namespace commfuse
