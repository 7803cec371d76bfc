// Memory: bytes a rank holds, by part; each formula cites its paper. The player adds them up over time.
#pragma once

#include "workloads/memory/activations.h"
#include "workloads/memory/buffers.h"
#include "workloads/memory/overhead.h"
#include "workloads/memory/parts.h"
#include "workloads/memory/peak.h"
#include "workloads/memory/states.h"
#include "workloads/memory/transients.h"
#include "workloads/memory/verdict.h"
