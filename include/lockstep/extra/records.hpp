// TFRecord files: TFRecordWriter, from_tfrecords.
#pragma once

#include "lockstep/core/config.hpp"  // first: see there

#include "lockstep/extra/records/example.hpp"
#include "lockstep/extra/records/tfrecord_file.hpp"
#include "lockstep/extra/records/tfrecords.hpp"
