#include "lockstep/core/shape.ipp"
#include "lockstep/core/shape.ipp"
