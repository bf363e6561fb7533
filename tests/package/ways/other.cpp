#include <mine.hpp>

int main() { return mine()[0] == '\0'; }
