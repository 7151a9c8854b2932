// SPDX-License-Identifier: Apache-2.0
#include "harness/record/text_grid.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace commfuse {
namespace {

constexpr std::string_view kGap = "  ";

std::string trimmed(std::string_view text) {
  const std::size_t first = std::min(text.find_first_not_of(' '), text.size());
  const std::size_t end = text.find_last_not_of(' ') + 1;
  return std::string(text.substr(first, std::max(end, first) - first));
}

/// A cell must not end the row or the column that it is in.
std::string markdown_cell(std::string_view text) {
  std::string cell;
  for (const char c : trimmed(text)) {
    if (c == '|') cell += '\\';
    cell += c == '\n' ? ' ' : c;
  }
  return cell;
}

}  // namespace

void TextGrid::add_column(std::string name, std::string unit, Align align) {
  columns_.push_back({std::move(name), std::move(unit), align, false});
}

void TextGrid::add_row(std::vector<std::string> cells) {
  rows_.push_back({std::move(cells), "", false});
}

void TextGrid::add_row_with_note(std::vector<std::string> cells, std::string note) {
  rows_.push_back({std::move(cells), std::move(note), false});
}

void TextGrid::add_line(std::string text) { rows_.push_back({{}, std::move(text), true}); }

std::vector<std::string> TextGrid::cells_of(std::size_t column) const {
  std::vector<std::string> cells;
  for (const Row& row : rows_) {
    if (column < row.cells.size()) cells.push_back(row.cells[column]);
  }
  return cells;
}

std::vector<std::size_t> TextGrid::widths() const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t widest = 0;
    for (const std::string& cell : cells_of(i)) widest = std::max(widest, cell.size());
    const bool shown = widest > 0 && !columns_[i].hidden;
    widths.push_back(shown ? std::max({widest, columns_[i].name.size(), columns_[i].unit.size()})
                           : 0);
  }
  return widths;
}

std::string TextGrid::line_of(const std::vector<std::string>& cells, std::string_view note,
                              const std::vector<std::size_t>& widths) const {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (widths[i] == 0) continue;
    if (!line.empty()) line += kGap;
    line += columns_[i].align == Align::left ? fmt::format("{:<{}}", cells[i], widths[i])
                                             : fmt::format("{:>{}}", cells[i], widths[i]);
  }
  if (!note.empty()) line += fmt::format("{}{}", kGap, note);
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

std::string TextGrid::text() const {
  const std::vector<std::size_t> widths = this->widths();
  std::vector<std::string> names;
  std::vector<std::string> units;
  for (const Column& column : columns_) {
    names.push_back(column.name);
    units.push_back(column.unit);
  }
  std::string text = line_of(names, "", widths) + line_of(units, "", widths);
  for (const Row& row : rows_) {
    text += row.line ? row.note + '\n' : line_of(row.cells, row.note, widths);
  }
  return text;
}

std::string TextGrid::markdown_row(const std::vector<std::string>& cells) const {
  const std::vector<std::size_t> widths = this->widths();
  std::string row = "|";
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (widths[i] == 0) continue;
    const std::string cell = i < cells.size() ? markdown_cell(cells[i]) : "";
    row += cell.empty() ? " |" : fmt::format(" {} |", cell);
  }
  return row + '\n';
}

std::string TextGrid::markdown() const {
  std::vector<std::string> names, rules;
  for (const Column& column : columns_) {
    names.push_back(column.unit.empty() ? column.name
                                        : fmt::format("{} [{}]", column.name, column.unit));
    rules.emplace_back(column.align == Align::left ? ":--" : "--:");
  }
  std::string text = markdown_row(names) + markdown_row(rules);
  for (const Row& row : rows_) {
    std::vector<std::string> cells = row.cells;
    if (row.line) {
      cells = {fmt::format("**{}**", trimmed(row.note))};
    } else if (!row.note.empty()) {
      cells.push_back(row.note);
    }
    text += markdown_row(cells);
  }
  return text;
}

}  // namespace commfuse
