# SPDX-License-Identifier: Apache-2.0
# Writes a source file with every preset as a raw string: struct { name, text } in file-name order.
set(text "// Generated from suite/models/*.toml\n#include \"suite/embedded_models.h\"\n\nnamespace commfuse {\n")
string(APPEND text "static constexpr EmbeddedModel kModels[] = {\n")
foreach(model ${MODELS})
  get_filename_component(name ${model} NAME)
  string(REGEX REPLACE "\\.toml$" "" name ${name})
  file(READ ${model} content)
  string(APPEND text "    {\"${name}\", R\"toml(${content})toml\"},\n")
endforeach()
string(APPEND text "};\nstd::span<const EmbeddedModel> embedded_models() { return kModels; }\n}  // namespace commfuse\n")
file(WRITE ${OUTPUT} "${text}")
