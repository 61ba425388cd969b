// The binary interface: messages of 64-bit words that name kernels and describe their operands.
#ifndef RL_H
#define RL_H

#include <stddef.h>
#include <stdint.h>

// Marks functions outside of inner loops, because the modules of the tab must be small.
#if defined(__wasm__)
#define RL_SMALL __attribute__((minsize))
#define RL_ROOM 0
#else
#define RL_SMALL
#define RL_ROOM 1 // whether there is room for what only makes some sizes faster
#endif

// Changes whenever a word of a message changes its meaning.
#define RL_VERSION 1
#define RL_DIMS 8
#define RL_OPERANDS 13
#define RL_THREADS 64
// The most elements of an operand, a size of zero counted as one: more than any memory holds, and
// so few that a product of sizes of one operand, times bytes, fits 64 bits. The cpu backend has it
// too.
#define RL_MOST ((int64_t)1 << 48)

enum {
    RL_OK, RL_WRONG_VERSION, RL_MALFORMED, RL_NO_KERNEL, RL_BOUNDS, RL_INDEX, RL_MEMORY, RL_REFUSED,
    RL_VAST
};

// Name, bytes of a block, elements of a block; the order is that of simd.py.
#define RL_DTYPES(D) \
    D(BOOL, 1, 1) D(U8, 1, 1) D(I8, 1, 1) D(I16, 2, 1) D(I32, 4, 1) D(U32, 4, 1) D(I64, 8, 1) \
    D(F16, 2, 1) D(BF16, 2, 1) D(F32, 4, 1) D(F64, 8, 1) D(E4M3, 1, 1) D(E5M2, 1, 1) \
    D(Q4_0, 18, 32) D(Q4_1, 20, 32) D(Q5_0, 22, 32) D(Q5_1, 24, 32) D(Q8_0, 34, 32) \
    D(Q2_K, 84, 256) D(Q3_K, 110, 256) D(Q4_K, 144, 256) D(Q5_K, 176, 256) D(Q6_K, 210, 256) \
    D(IQ4_NL, 18, 32) D(IQ4_XS, 136, 256) D(MXFP4, 17, 32) D(NVFP4, 36, 64) \
    D(IQ1_S, 50, 256) D(IQ1_M, 56, 256) D(IQ2_XXS, 66, 256) D(IQ2_XS, 74, 256) \
    D(IQ2_S, 82, 256) D(IQ3_XXS, 98, 256) D(IQ3_S, 110, 256) D(TQ1_0, 54, 256) \
    D(TQ2_0, 66, 256) D(Q1_0, 18, 128) D(Q2_0, 18, 64) D(Q8_1, 36, 32) D(Q8_K, 292, 256) \
    D(N2_32, 13, 32) D(N4_16, 26, 32) D(N4_32, 21, 32) D(N4_64, 37, 64) D(N4_128, 69, 128) \
    D(H4_32, 19, 32) D(N8_32, 36, 32)

#define RL_ENUM(name, bytes, block) RL_##name,
enum { RL_DTYPES(RL_ENUM) RL_N_DTYPES };

// One operand: `data` points at the first element, strides count elements. An operand that is left
// out has no data and ndim -1.
typedef struct {
    uint8_t *data;
    int32_t dtype, ndim;
    int64_t shape[RL_DIMS], strides[RL_DIMS];
} rl_operand;

// Operand 0 is the output.
typedef struct {
    int32_t n, n_attrs;
    rl_operand op[RL_OPERANDS];
    const int64_t *attrs;
} rl_call;

typedef int (*rl_kernel)(const rl_call *call);

// Run fn(ctx, item, thread) for each item on the set number of threads; returns when all are done.
// Any thread may take an item, so an item must not depend on another. An item's own call does all
// on its thread, as thread 0: such functions use no memory of threads.
void rl_parallel(int64_t items, void (*fn)(void *ctx, int64_t item, int thread), void *ctx);
int rl_threads(void);

// Memory aligned to 64 bytes, valid until the kernel ends: for one thread (0 is the caller's), or
// shared by the kernel, allocated before rl_parallel. NULL if there is none.
void *rl_scratch(int thread, int64_t bytes);
void *rl_shared(int64_t bytes);

// A WebAssembly side module has no C library of its own, only the functions that Pyodide exports.
void *malloc(size_t);
void free(void *);
#define rl_copy(to, from, bytes) __builtin_memcpy(to, from, bytes)
#define rl_zero(to, bytes) __builtin_memset(to, 0, bytes)

static inline double rl_double(int64_t bits) {
    double out;
    rl_copy(&out, &bits, 8);
    return out;
}

static inline int64_t rl_numel(const rl_operand *x) {
    int64_t n = 1;
    for (int d = 0; d < x->ndim; d++) n *= x->shape[d];
    return n;
}

// The product of two sizes; the largest number where it does not fit, which no memory has.
static inline int64_t rl_times(int64_t a, int64_t b) {
    int64_t out;
    return __builtin_mul_overflow(a, b, &out) ? INT64_MAX : out;
}

static inline int64_t rl_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t rl_max(int64_t a, int64_t b) { return a > b ? a : b; }

#endif
