// What a.hpp needs.
#pragma once

struct B {
  int size() const;
};

#include "lockstep/b.ipp"
