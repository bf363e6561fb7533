// Texts as numbers: TextVectorization, BytePairEncoding; categories as numbers: StringLookup,
// IntegerLookup, Hashing, HashedCrossing.
#pragma once

#include "lockstep/core/config.hpp"  // first: see there

#include "lockstep/extra/text/byte_pair_encoding.hpp"
#include "lockstep/extra/text/hashing.hpp"
#include "lockstep/extra/text/lookup.hpp"
#include "lockstep/extra/text/text_vectorization.hpp"
