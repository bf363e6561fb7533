// Readers of data sets: files, folders, tables, records.
#pragma once

#include "lockstep/core/config.hpp"  // first: see there

#include "lockstep/datasets/csv.hpp"
#include "lockstep/datasets/fixed_length_records.hpp"
#include "lockstep/datasets/image_folder.hpp"
#include "lockstep/datasets/image_sets.hpp"
#include "lockstep/datasets/npy.hpp"
#include "lockstep/datasets/synthetic_digits.hpp"
#include "lockstep/datasets/tar_shards.hpp"
#include "lockstep/datasets/text_lines.hpp"
#include "lockstep/datasets/token_shard.hpp"
