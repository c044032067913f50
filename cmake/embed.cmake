# Builds every file under a folder into the binary: an assembler file with .incbin for the bytes and
# a C table from relative path to bytes. The library then works wherever the binary is copied to.
function(orr_embed_data folder output)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE ${folder} ${folder}/*)
  # The published runs that projections are judged by travel as plain files.
  list(FILTER files EXCLUDE REGEX "^validation/")
  list(SORT files)
  set(asm ".section .rodata\n")
  set(declarations "")
  set(rows "")
  set(index 0)
  set(paths "")
  foreach(file ${files})
    string(APPEND asm
      ".global orr_data_${index}\n.hidden orr_data_${index}\n.balign 16\norr_data_${index}:\n"
      ".incbin \"${folder}/${file}\"\n.byte 0\n")
    file(SIZE ${folder}/${file} size)
    # what compiler caches go by: they do not look into .incbin
    file(MD5 ${folder}/${file} hash)
    string(APPEND asm "/* ${hash} */\n")
    string(APPEND declarations "extern const char orr_data_${index}[];\n")
    string(APPEND rows "    {\"${file}\", orr_data_${index}, ${size}},\n")
    list(APPEND paths ${folder}/${file})
    math(EXPR index "${index} + 1")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${folder}/${file})
  endforeach()
  string(APPEND asm ".section .note.GNU-stack,\"\",%progbits\n")
  set(table "#include \"base/embedded.h\"\n\n${declarations}\nconst orr_embedded orr_embedded_files[] = {\n${rows}    {0, 0, 0},\n};\nconst size_t orr_embedded_count = ${index};\n")
  file(CONFIGURE OUTPUT ${output}/data.S CONTENT "${asm}" @ONLY)
  file(CONFIGURE OUTPUT ${output}/table.c CONTENT "${table}" @ONLY)
  # The assembler reads these files; nothing else says so.
  set_source_files_properties(${output}/data.S PROPERTIES OBJECT_DEPENDS "${paths}")
  set(ORR_EMBEDDED_SOURCES ${output}/data.S ${output}/table.c PARENT_SCOPE)
endfunction()
