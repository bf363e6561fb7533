# lockstep::images: lockstep::headers with decoders for from_image_folder, when CMake finds libpng
# or libjpeg. For lockstep's own build and for find_package(lockstep COMPONENTS images). A program
# may link it beside lockstep::lockstep.

find_package(PNG QUIET GLOBAL)
find_package(JPEG QUIET GLOBAL)
if((TARGET PNG::PNG OR TARGET JPEG::JPEG) AND NOT TARGET lockstep::images)
  add_library(lockstep::images INTERFACE IMPORTED GLOBAL)
  target_link_libraries(lockstep::images INTERFACE lockstep::headers)
  if(TARGET PNG::PNG)
    target_link_libraries(lockstep::images INTERFACE PNG::PNG)
    target_compile_definitions(lockstep::images INTERFACE LOCKSTEP_HAS_PNG=1)
  endif()
  if(TARGET JPEG::JPEG)
    target_link_libraries(lockstep::images INTERFACE JPEG::JPEG)
    target_compile_definitions(lockstep::images INTERFACE LOCKSTEP_HAS_JPEG=1)
  endif()
endif()
