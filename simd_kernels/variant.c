// All kernels in one translation unit, compiled once per instruction set.
#include "rl.h"
#include "simd.h"

#include "math.h"
#include "walk.h"

// A tab downloads its module: what lies between these, outside of inner loops, is made small there.
#if defined(__wasm__)
#define RARE_BEGIN _Pragma("clang attribute push(__attribute__((minsize)), apply_to = function)")
#define RARE_END _Pragma("clang attribute pop")
#else
#define RARE_BEGIN
#define RARE_END
#endif

#if defined(__wasm__)
// So that each stays a function.
#define K(name, kinds) static int k_##name(const rl_call *call) __attribute__((noinline));
#include "kernels.def"
#undef K
#endif

RARE_BEGIN
#include "convert.c"
RARE_END
#include "elementwise.c"
#include "norm.c"
#include "rows.c"
#include "move.c"
RARE_BEGIN
#include "reduce.c"
#include "select.c"
#include "index.c"
#if RL_ROOM
#include "parts.c"
#endif
#include "random.c"
RARE_END

#include "blocks.c"
#include "chunks.c"
RARE_BEGIN
#include "chunks_rare.c"
#include "blocks_widen.c"
RARE_END
#include "packed.c"
#include "blocks_exact.c"
#include "blocks_fast.c"
#include "blocks_row.c"
#include "chunks_row.c"
#include "blocks_linear.c"
#include "product.c"
#include "micro.c"
#include "gemm.c"
#include "gemv.c"
#include "bytes.c"
RARE_BEGIN
#include "bytes_depthwise.c"
RARE_END
#include "attention.c"
RARE_BEGIN
#include "recurrence.c"
RARE_END
#include "windows.c"
#include "pooling.c"
RARE_BEGIN
#include "linear.c"
#include "image.c"
RARE_END
#include "strips.c"
#if RL_ROOM
#include "winograd.c"
#include "depthwise.c"
#endif
RARE_BEGIN
#include "conv.c"
RARE_END
#if RL_ROOM
#include "chain.c"
#endif

#ifndef RL_TABLE
#define RL_TABLE rl_table_base
#endif
#if defined(__wasm__)
// Without addresses, each of which takes twenty bytes of a module that lies anywhere in memory.
#define K(name, kinds) CASE_##name,
enum {
#include "kernels.def"
};
#undef K
#define K(name, kinds)                                                                             \
    case CASE_##name: return k_##name(call);
RL_SMALL int rl_run_kernel(int64_t number, const rl_call *call) {
    switch (number) {
#include "kernels.def"
    }
    return RL_NO_KERNEL;
}
#else
#define K(name, kinds) k_##name,
const rl_kernel RL_TABLE[] = {
#include "kernels.def"
};
#endif
