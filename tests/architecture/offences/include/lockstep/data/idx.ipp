#pragma once

LOCKSTEP_INLINE void everywhere() {}
