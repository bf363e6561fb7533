// Prometheus: PrometheusFile, PrometheusPort.
#pragma once

#include "lockstep/core/config.hpp"  // first: see there

#include "lockstep/extra/prometheus/prometheus.hpp"
