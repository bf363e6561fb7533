// Begins with b.hpp, whose .ipp needs it.
#pragma once

#include "lockstep/b.hpp"

struct A {};
