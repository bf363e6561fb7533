// Training that goes on with fewer workers, or more: MultiWorkerMirroredOptions::elastic.
#pragma once

#include "lockstep/core/config.hpp"
#include "lockstep/extra/elastic/elastic_options.hpp"
#include "lockstep/strategies/multi_worker_options.hpp"

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/extra/elastic/members.ipp"
#endif
