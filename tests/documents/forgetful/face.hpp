#include "lockstep/core/a.hpp"
#include "lockstep/core/b.hpp"
