// ElasticOptions: training that goes on with fewer workers, or more.
#pragma once

#include "lockstep/core/config.hpp"  // first: see there

#include "lockstep/extra/elastic/membership.hpp"
