// Texts as numbers: TextVectorization, BytePairEncoding.
#pragma once

#include "lockstep/core/config.hpp"  // first: see there

#include "lockstep/extra/text/byte_pair_encoding.hpp"
#include "lockstep/extra/text/text_vectorization.hpp"
