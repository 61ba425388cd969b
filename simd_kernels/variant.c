// All kernels in one translation unit, compiled once per instruction set.
#include "rl.h"
#include "simd.h"

#include "math.h"
#include "walk.h"

#if defined(__wasm__)
#pragma clang attribute push(__attribute__((minsize)), apply_to = function)
#endif
#include "convert.c"
#if defined(__wasm__)
#pragma clang attribute pop
#endif
#include "elementwise.c"
#include "norm.c"
#include "move.c"
// A tab downloads its module, so code outside of a model's inner loops is optimized for size there.
#if defined(__wasm__)
#pragma clang attribute push(__attribute__((minsize)), apply_to = function)
#endif
#include "reduce.c"
#include "select.c"
#include "index.c"
#include "recurrence.c"
#if defined(__wasm__)
#pragma clang attribute pop
#endif

#include "blocks.c"
#include "chunks.c"
#if defined(__wasm__)
#pragma clang attribute push(__attribute__((minsize)), apply_to = function)
#endif
#include "chunks_rare.c"
#include "blocks_widen.c"
#if defined(__wasm__)
#pragma clang attribute pop
#endif
#include "packed.c"
#include "attention.c"
#include "blocks_exact.c"
#include "blocks_fast.c"
#include "blocks_row.c"
#include "chunks_row.c"
#include "blocks_linear.c"
#include "product.c"
#include "gemm.c"
#include "gemv.c"
#if defined(__wasm__)
#pragma clang attribute push(__attribute__((minsize)), apply_to = function)
#endif
#include "linear.c"
#include "conv.c"
#if defined(__wasm__)
#pragma clang attribute pop
#endif

#ifndef RL_TABLE
#define RL_TABLE rl_table_base
#endif
#define K(name, kinds) k_##name,
const rl_kernel RL_TABLE[] = {
#include "kernels.def"
};
