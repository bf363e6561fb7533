# The target `docs`: the site, in <build>/docs/html; `docs_archive` packs it. Doxygen is looked for
# when they are built: see README.md.

foreach(target IN ITEMS docs docs_archive)
  add_custom_target(
    ${target}
    COMMAND "${CMAKE_COMMAND}" -D "SOURCE=${PROJECT_SOURCE_DIR}" -D "OUTPUT=${PROJECT_BINARY_DIR}/docs" -D
            "VERSION=${PROJECT_VERSION}" -D "BRIEF=${PROJECT_DESCRIPTION}" -D GOAL=${target} -P
            "${CMAKE_CURRENT_LIST_DIR}/make.cmake"
    VERBATIM)
endforeach()
