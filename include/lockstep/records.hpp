// TFRecord files, and TensorBoard's event files.
#pragma once

#include "lockstep/core/config.hpp"  // first: see there

#include "lockstep/records/event_file.hpp"
#include "lockstep/records/example.hpp"
#include "lockstep/records/tfrecord_file.hpp"
#include "lockstep/records/tfrecord_writer.hpp"
