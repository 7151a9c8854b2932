// SPDX-License-Identifier: Apache-2.0
#include "suite/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <toml++/toml.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>
#include <vector>

#include "suite/embedded_models.h"
#include "suite/error.h"

namespace commfuse {
namespace {

constexpr std::int64_t kCountLimit = std::int64_t{1} << 31;

constexpr std::array kActivations{Activation::relu, Activation::gelu, Activation::swiglu};

/// The keys of a shape, in the order in which messages list them.
constexpr std::array<std::string_view, 8> kKeys{"hidden",   "ffn",    "heads",      "kv_heads",
                                                "head_dim", "layers", "activation", "causal"};

using Fields = std::map<std::string, std::string, std::less<>>;

Activation parse_activation(std::string_view text) {
  for (const Activation activation : kActivations) {
    if (text == name_of(activation)) return activation;
  }
  throw UsageError(fmt::format("unknown activation '{}'; valid: relu, gelu, swiglu", text));
}

bool parse_bool(std::string_view text, std::string_view what) {
  if (text == "true") return true;
  if (text == "false") return false;
  throw UsageError(fmt::format("{} must be true or false, got '{}'", what, text));
}

void require_known_keys(const Fields& fields) {
  for (const auto& [key, value] : fields) {
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) {
      throw UsageError(
          fmt::format("unknown key '{}' in shape; valid: {}", key, fmt::join(kKeys, ", ")));
    }
  }
}

/// The count named `key`, or `otherwise` where it is not given.
std::int32_t count_or(const Fields& fields, std::string_view key, std::int32_t otherwise) {
  const auto found = fields.find(key);
  return found == fields.end() ? otherwise : parse_count(found->second, key);
}

void set_heads(Shape& shape, const Fields& fields) {
  shape.heads = count_or(fields, "heads", 0);
  shape.kv_heads = count_or(fields, "kv_heads", shape.heads);
  shape.head_dim = count_or(fields, "head_dim", 0);
  if (shape.heads == 0) {
    if (shape.kv_heads != 0 || shape.head_dim != 0) {
      throw UsageError("kv_heads and head_dim need heads in shape");
    }
    return;
  }
  if (shape.heads % shape.kv_heads != 0) {
    throw UsageError(
        fmt::format("heads ({}) must be divisible by kv_heads ({})", shape.heads, shape.kv_heads));
  }
  if (shape.head_dim != 0) return;
  if (shape.hidden % shape.heads != 0) {
    throw UsageError(
        fmt::format("hidden ({}) must be divisible by heads ({}) unless head_dim is given",
                    shape.hidden, shape.heads));
  }
  shape.head_dim = shape.hidden / shape.heads;
}

/// Rows of stacked gate and up weights and columns of all heads are counted in 32 bits.
void require_countable(const Shape& shape) {
  if (std::int64_t{2} * shape.ffn >= kCountLimit) {
    throw UsageError(fmt::format("ffn must be below 2^30, got {}", shape.ffn));
  }
  if (std::int64_t{shape.heads} * shape.head_dim >= kCountLimit) {
    throw UsageError(fmt::format("heads x head_dim must be below 2^31, got {} x {}", shape.heads,
                                 shape.head_dim));
  }
}

Shape shape_of(const Fields& fields) {
  require_known_keys(fields);
  if (!fields.contains("hidden")) throw UsageError("shape needs hidden, such as hidden=4096");
  Shape shape;
  shape.hidden = count_or(fields, "hidden", 0);
  shape.ffn = count_or(fields, "ffn", 0);
  shape.layers = count_or(fields, "layers", 1);
  set_heads(shape, fields);
  if (const auto found = fields.find("activation"); found != fields.end()) {
    shape.activation = parse_activation(found->second);
  }
  if (const auto found = fields.find("causal"); found != fields.end()) {
    shape.causal = parse_bool(found->second, "causal");
  }
  require_countable(shape);
  return shape;
}

std::string text_of(const toml::node& node) {
  if (const auto* integer = node.as_integer()) return fmt::format("{}", integer->get());
  if (const auto* boolean = node.as_boolean()) return boolean->get() ? "true" : "false";
  return node.value_or(std::string{});
}

Fields fields_of(std::string_view toml_text) {
  Fields fields;
  for (const auto& [key, node] : toml::parse(toml_text)) {
    fields.emplace(std::string{key.str()}, text_of(node));
  }
  return fields;
}

std::vector<std::string_view> sorted_preset_names() {
  std::vector<std::string_view> names;
  for (const EmbeddedModel& model : embedded_models()) names.push_back(model.name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::string_view name_of(Activation activation) {
  switch (activation) {
    case Activation::relu:
      return "relu";
    case Activation::gelu:
      return "gelu";
    case Activation::swiglu:
      break;
  }
  return "swiglu";
}

std::span<const std::string_view> preset_names() {
  static const std::vector<std::string_view> names = sorted_preset_names();
  return names;
}

Shape preset(std::string_view name) {
  for (const EmbeddedModel& model : embedded_models()) {
    if (model.name != name) continue;
    Shape shape = shape_of(fields_of(model.text));
    shape.model = name;
    return shape;
  }
  throw UsageError(
      fmt::format("unknown model '{}'; valid: {}", name, fmt::join(preset_names(), ", ")));
}

Shape parse_shape(std::string_view text) {
  Fields fields;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view item = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      throw UsageError(fmt::format("shape takes key=value pairs, got '{}'; keys: {}", item,
                                   fmt::join(kKeys, ", ")));
    }
    const std::string_view key = item.substr(0, equals);
    if (!fields.emplace(std::string{key}, std::string{item.substr(equals + 1)}).second) {
      throw UsageError(fmt::format("key '{}' is given twice in shape", key));
    }
  }
  return shape_of(fields);
}

std::int32_t parse_count(std::string_view text, std::string_view what) {
  std::int64_t unit = 1;
  std::string_view digits = text;
  const char last = digits.empty() ? '0' : static_cast<char>(std::toupper(digits.back()));
  if (last == 'K' || last == 'M') {
    unit = last == 'K' ? 1024 : 1024 * 1024;
    digits.remove_suffix(1);
  }
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool a_number =
      end == digits.data() + digits.size() && error != std::errc::invalid_argument;
  if (!a_number) {
    throw UsageError(
        fmt::format("{} must be a positive count such as 4096 or 8K, got '{}'", what, text));
  }
  const bool too_large = error == std::errc::result_out_of_range && digits.front() != '-';
  if (too_large || value >= (kCountLimit + unit - 1) / unit) {
    throw UsageError(fmt::format("{} must be below 2^31, got '{}'", what, text));
  }
  if (error != std::errc{} || value <= 0) {
    throw UsageError(fmt::format("{} must be positive, got '{}'", what, text));
  }
  return static_cast<std::int32_t>(value * unit);
}

}  // namespace commfuse
