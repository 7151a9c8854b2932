// SPDX-License-Identifier: Apache-2.0
// Columns of text: aligned for a terminal, or as a Markdown table.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace commfuse {

/// Columns with two header lines (a name, a unit), rows of cells, and lines that are no rows. A
/// column without a cell is not shown.
class TextGrid {
 public:
  enum class Align : std::uint8_t { left, right };

  void add_column(std::string name, std::string unit, Align align = Align::right);
  /// As many cells as there are columns; empty ones stay blank.
  void add_row(std::vector<std::string> cells);
  /// Cells of the first columns, then text across all others.
  void add_row_with_note(std::vector<std::string> cells, std::string note);
  /// A line of its own, across all columns.
  void add_line(std::string text);

  /// The cells of a column, by index.
  [[nodiscard]] std::vector<std::string> cells_of(std::size_t column) const;
  void hide(std::size_t column) { columns_[column].hidden = true; }
  /// Ends with a newline; no line ends in blanks.
  [[nodiscard]] std::string text() const;
  /// A table of GitHub's Markdown, with name and unit in one header line. A line of its own is a
  /// row in bold, and a note stands in the column after the cells of its row.
  [[nodiscard]] std::string markdown() const;

 private:
  struct Column {
    std::string name;
    std::string unit;
    Align align = Align::right;
    bool hidden = false;
  };
  struct Row {
    std::vector<std::string> cells;
    std::string note;
    bool line = false;
  };

  [[nodiscard]] std::vector<std::size_t> widths() const;
  [[nodiscard]] std::string markdown_row(const std::vector<std::string>& cells) const;
  [[nodiscard]] std::string line_of(const std::vector<std::string>& cells, std::string_view note,
                                    const std::vector<std::size_t>& widths) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

}  // namespace commfuse
