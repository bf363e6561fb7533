# Nccl: with a stand-in for NVIDIA's libraries, extra/nccl/nccl.test.cpp and its program; with the
# real ones, extra/nccl/devices.cpp, which needs a device to run.

set(stand_in "${CMAKE_CURRENT_SOURCE_DIR}/extra/nccl/stand_in")
add_library(lockstep_nccl_stand_in OBJECT EXCLUDE_FROM_ALL "${stand_in}/stand_in.cpp")
target_link_libraries(lockstep_nccl_stand_in PRIVATE lockstep_development)
target_compile_features(lockstep_nccl_stand_in PRIVATE cxx_std_20)
if(TARGET test_extra)
  set_source_files_properties(
    extra/nccl/nccl.test.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_DEFINITIONS LOCKSTEP_HAS_NCCL=1
                                        COMPILE_OPTIONS "-I${stand_in}")
  target_sources(test_extra PRIVATE $<TARGET_OBJECTS:lockstep_nccl_stand_in>)
  target_sources(extra_nccl_worker PRIVATE $<TARGET_OBJECTS:lockstep_nccl_stand_in>)
  target_include_directories(extra_nccl_worker BEFORE PRIVATE "${stand_in}")
  target_compile_definitions(extra_nccl_worker PRIVATE LOCKSTEP_HAS_NCCL=1)
endif()

if(NOT TARGET lockstep::nccl)
  lockstep_add_skipped_test(nccl "CMake finds no NCCL and CUDA runtime (CUDA_HOME may name their folder)")
  return()
endif()
add_executable(nccl_devices extra/nccl/devices.cpp)
target_link_libraries(nccl_devices PRIVATE lockstep_test_main lockstep::nccl)
add_test(NAME nccl.devices COMMAND nccl_devices)
set_tests_properties(nccl.devices PROPERTIES LABELS full TIMEOUT 300 SKIP_RETURN_CODE 77)
