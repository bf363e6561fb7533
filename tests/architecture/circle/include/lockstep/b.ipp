#pragma once

#include "lockstep/a.hpp"
#include "lockstep/b.hpp"

inline int B::size() const { return sizeof(A); }
