include(CMakeFindDependencyMacro)
find_dependency(lockstep)
include("${CMAKE_CURRENT_LIST_DIR}/partTargets.cmake")
