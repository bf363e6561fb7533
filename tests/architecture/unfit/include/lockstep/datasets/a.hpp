// What texts.cmake refuses; printf( here is a comment.
#pragma once

inline void refuse(const char* path, double number) {
  char text[40];
  std::snprintf(text, sizeof text, "%f", number);
  if (number > 0) throw std::runtime_error(text);
  throw DataError(concat({"cannot read '", path, "': ", text}));
}
