// SPDX-License-Identifier: Apache-2.0
#include "harness/record/text_grid.h"

#include <gtest/gtest.h>

namespace commfuse {
namespace {

TextGrid three_columns() {
  TextGrid grid;
  grid.add_column("name", "", TextGrid::Align::left);
  grid.add_column("time", "ms");
  grid.add_column("share", "%");
  return grid;
}

TEST(TextGrid, AlignsColumnsAndLeavesNoTrailingBlanks) {
  TextGrid grid = three_columns();
  grid.add_row({"plain", "12.50", "4.0"});
  grid.add_row({"a longer name", "7.25", ""});
  EXPECT_EQ(grid.text(),
            "name            time  share\n"
            "                  ms      %\n"
            "plain          12.50    4.0\n"
            "a longer name   7.25\n");
}

TEST(TextGrid, NotesAndLinesRunAcrossColumns) {
  TextGrid grid = three_columns();
  grid.add_line("group one");
  grid.add_row({"plain", "12.50", "4.0"});
  grid.add_row_with_note({"x"}, "a reason that is longer than the columns");
  EXPECT_EQ(grid.text(),
            "name    time  share\n"
            "          ms      %\n"
            "group one\n"
            "plain  12.50    4.0\n"
            "x      a reason that is longer than the columns\n");
}

TEST(TextGrid, DoesNotShowEmptyAndHiddenColumns) {
  TextGrid grid = three_columns();
  grid.add_row({"plain", "", "4.0"});
  EXPECT_EQ(grid.text(),
            "name   share\n"
            "           %\n"
            "plain    4.0\n");
  grid.hide(2);
  EXPECT_EQ(grid.text(), "name\n\nplain\n");
}

TEST(TextGrid, AsMarkdownHasOneHeaderAndEscapesBars) {
  TextGrid grid = three_columns();
  grid.add_line("  group | one");
  grid.add_row({"  plain", "12.50", "4.0"});
  grid.add_row_with_note({"x"}, "two\nlines");
  grid.hide(2);
  EXPECT_EQ(grid.markdown(),
            "| name | time [ms] |\n"
            "| :-- | --: |\n"
            "| **group \\| one** | |\n"
            "| plain | 12.50 |\n"
            "| x | two lines |\n");
}

TEST(TextGrid, KnowsTheCellsOfAColumn) {
  TextGrid grid = three_columns();
  grid.add_row({"a", "1", "2"});
  grid.add_line("a line");
  grid.add_row_with_note({"b"}, "note");
  EXPECT_EQ(grid.cells_of(0), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(grid.cells_of(1), (std::vector<std::string>{"1"}));
}

}  // namespace
}  // namespace commfuse
