#pragma once

/// The name of the instruction set that kernels use here.
const char* mine();
