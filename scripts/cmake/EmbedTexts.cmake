# SPDX-License-Identifier: Apache-2.0
# Writes a source file with every TOML file of FILES as a raw string: struct TYPE { name, text } in file-name order, given out
# by FUNCTION. HEADER declares both.
set(text "// Generated from the TOML files beside ${HEADER}\n#include \"${HEADER}\"\n\nnamespace commfuse {\n")
string(APPEND text "static constexpr ${TYPE} kTexts[] = {\n")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  string(REGEX REPLACE "\\.toml$" "" name ${name})
  file(READ ${file} content)
  string(APPEND text "    {\"${name}\", R\"toml(${content})toml\"},\n")
endforeach()
string(APPEND text "};\nstd::span<const ${TYPE}> ${FUNCTION}() { return kTexts; }\n}  // namespace commfuse\n")
file(WRITE ${OUTPUT} "${text}")
