// Runs messages: checks them word by word, then runs them record by record.
#include "rl.h"
#include "pool.h"

// One string, because in the tab a table of pointers needs code that fills it.
#define K(name, kinds) #name "\0"
static const char NAMES[] =
#include "kernels.def"
    ;
#undef K
#define K(name, kinds) KERNEL_##name,
enum {
#include "kernels.def"
    KERNELS
};
#undef K
#define K(name, kinds) kinds,
static const uint8_t KINDS[] = {
#include "kernels.def"
};
#undef K

#define RL_BYTES(name, bytes, block) {bytes, block},
static const int32_t DTYPE[][2] = {RL_DTYPES(RL_BYTES)};

#if defined(__wasm__)
int rl_run_kernel(int64_t number, const rl_call *call);
#else
extern const rl_kernel rl_table_base[];
#endif
#if defined(__x86_64__)
extern const rl_kernel rl_table_avx2[], rl_table_avx512[];
#include <cpuid.h>

// The instructions that processor and system support: 0 for the base, 1 for AVX2 with FMA and F16C,
// 2 for AVX-512 with VNNI.
static int detect(void) {
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & 1u << 27)) return 0; // OSXSAVE
    int fma = (c & 1u << 12) && (c & 1u << 29);
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if (!fma || (low & 6) != 6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    if (!(b & 1u << 5) || !(b & 1u << 8)) return 0; // AVX2, BMI2
    unsigned wanted = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31; // F, DQ, CD, BW, VL
    return (b & wanted) == wanted && (c & 1u << 11) && (low & 0xe0) == 0xe0 ? 2 : 1;
}
static const char *const VARIANTS[] = {"SSE4", "AVX2", "AVX-512"};
#elif defined(__aarch64__) && defined(__linux__)
extern const rl_kernel rl_table_dotprod[];
#include <sys/auxv.h>

// 1 if the processor has the dot product of ARMv8.2 (HWCAP_ASIMDDP).
static int detect(void) { return getauxval(AT_HWCAP) >> 20 & 1; }
static const char *const VARIANTS[] = {"NEON", "NEON with dot product"};
#elif defined(__aarch64__)
static int detect(void) { return 0; }
static const char *const VARIANTS[] = {"NEON with dot product"};
#elif defined(__wasm_relaxed_simd__)
static int detect(void) { return 0; }
static const char *const VARIANTS[] = {"relaxed SIMD"};
#else
static int detect(void) { return 0; }
static const char *const VARIANTS[] = {"SIMD128"};
#endif

static int chosen = -1;

#define RL_API __attribute__((visibility("default")))

// The instructions in use; `highest` bounds them (tests run every variant the processor has).
RL_API const char *rl_variant(int32_t highest) {
    int found = detect();
    chosen = highest < 0 || highest > found ? found : highest;
    return VARIANTS[chosen];
}

#if !defined(__wasm__)
static const rl_kernel *table(void) {
    if (chosen < 0) rl_variant(-1);
#if defined(__x86_64__)
    return chosen == 2 ? rl_table_avx512 : chosen == 1 ? rl_table_avx2 : rl_table_base;
#elif defined(__aarch64__) && defined(__linux__)
    return chosen ? rl_table_dotprod : rl_table_base;
#else
    return rl_table_base;
#endif
}
#endif

RL_API int32_t rl_version(void) { return RL_VERSION; }

// The name of kernel `number`; NULL after the last.
RL_API const char *rl_kernel_name(int32_t number) {
    const char *name = NAMES;
    if (number < 0 || number >= KERNELS) return NULL;
    for (; number; name++) number -= !*name;
    return name;
}

// For an elementwise kernel, 1 if it supports floats, plus 2 if it supports integers; otherwise 0.
RL_API int32_t rl_kernel_kinds(int32_t number) {
    return number >= 0 && number < KERNELS ? KINDS[number] : 0;
}

// The bytes of a block of a dtype times 1024, plus its elements; 0 after the last dtype.
RL_API int32_t rl_dtype(int32_t code) {
    return code >= 0 && code < RL_N_DTYPES ? DTYPE[code][0] * 1024 + DTYPE[code][1] : 0;
}

// Whether every element of an operand is in a buffer of `nbytes` bytes, from element `offset` on.
RL_SMALL static int inside(const rl_operand *x, int64_t offset, int64_t nbytes) {
    int64_t last = offset, bytes = DTYPE[x->dtype][0], block = DTYPE[x->dtype][1];
    if (offset < 0 || offset % block) return 0;
    int empty = 0;
    for (int d = 0; d < x->ndim; d++) {
        if (x->shape[d] < 0 || x->strides[d] < 0) return 0;
        empty |= !x->shape[d];
    }
    if (empty) return 1;
    for (int d = 0; d < x->ndim; d++) {
        int64_t span;
        if (__builtin_mul_overflow(x->shape[d] - 1, x->strides[d], &span)) return 0;
        if (__builtin_add_overflow(last, span, &last)) return 0;
        if (block > 1 && d < x->ndim - 1 && x->strides[d] % block) return 0;
    }
    if (block > 1) { // blocks are whole and contiguous
        int d = x->ndim - 1;
        if (d < 0 || x->shape[d] % block || (x->strides[d] != 1)) return 0;
    }
    int64_t end;
    if (__builtin_add_overflow(last / block, 1, &end)) return 0;
    return !__builtin_mul_overflow(end, bytes, &end) && end <= nbytes;
}

// Whether kernels may multiply the sizes of an operand with each other and with its strides.
// Strides that lead to no second element may be any number; large ones become 0.
RL_SMALL static int bounded(rl_operand *x) {
    int64_t count = 1;
    int empty = 0;
    for (int d = 0; d < x->ndim; d++) {
        empty |= !x->shape[d];
        count = rl_times(count, rl_max(1, x->shape[d]));
    }
    for (int d = 0; d < x->ndim; d++)
        if ((empty || x->shape[d] == 1) &&
            rl_times(rl_max(1, x->shape[d]), x->strides[d]) > RL_MOST)
            x->strides[d] = 0;
    return count <= RL_MOST;
}

// Read one record; returns its length in words, or minus the error code.
RL_SMALL static int64_t read(const int64_t *w, int64_t left, const int64_t *buffers,
                             int64_t n_buffers, rl_call *call) {
    if (left < 4 || w[1] < 4 || w[1] > left) return -RL_MALFORMED;
    const int64_t *end = w + w[1], *at = w + 4;
    if (w[0] < 0 || w[0] >= KERNELS) return -RL_NO_KERNEL;
    if (w[2] < 1 || w[2] > RL_OPERANDS || w[3] < 0 || w[3] > w[1]) return -RL_MALFORMED;
    call->n = (int32_t)w[2];
    call->n_attrs = (int32_t)w[3];
    for (int i = 0; i < call->n; i++) {
        rl_operand *x = &call->op[i];
        if (end - at < 4) return -RL_MALFORMED;
        int64_t buffer = at[0], dtype = at[1], offset = at[2], ndim = at[3];
        at += 4;
        if (buffer == -1) {
            *x = (rl_operand){.data = NULL, .ndim = -1};
            if (ndim) return -RL_MALFORMED;
            continue;
        }
        if (buffer < 0 || buffer >= n_buffers || dtype < 0 || dtype >= RL_N_DTYPES || ndim < 0 ||
            ndim > RL_DIMS || end - at < 2 * ndim)
            return -RL_MALFORMED;
        x->dtype = (int32_t)dtype;
        x->ndim = (int32_t)ndim;
        for (int d = 0; d < ndim; d++) x->shape[d] = at[d], x->strides[d] = at[ndim + d];
        at += 2 * ndim;
        if (!inside(x, offset, buffers[2 * buffer + 1])) return -RL_BOUNDS;
        if (!bounded(x)) return -RL_VAST;
        int64_t start = offset / DTYPE[dtype][1] * DTYPE[dtype][0];
        x->data = (uint8_t *)(intptr_t)buffers[2 * buffer] + start;
    }
    if (end - at != w[3]) return -RL_MALFORMED;
    call->attrs = at;
    return w[1];
}

// Run a message of `n` words. Returns 0, or 256 times the record's number (from 1) plus the error
// code.
RL_API int32_t rl_run(const int64_t *words, int32_t n) {
    if (n < 4 || words[1] != n) return RL_MALFORMED;
    if (words[0] != RL_VERSION) return RL_WRONG_VERSION;
    int64_t n_buffers = words[2], records = words[3];
    if (n_buffers < 0 || n_buffers > n / 2 || records < 0 || records > n) return RL_MALFORMED;
    const int64_t *buffers = words + 4, *at = buffers + 2 * n_buffers, *end = words + n;
    if (at > end) return RL_MALFORMED;
#if !defined(__wasm__)
    const rl_kernel *kernels = table();
#endif
    rl_call call;
    int32_t result = RL_OK;
    // All of it is checked before any of it runs.
    for (int64_t i = 0; i < records; i++) {
        int64_t length = read(at, end - at, buffers, n_buffers, &call);
        if (length < 0) return (int32_t)((i + 1) * 256 - length);
        at += length;
    }
    if (at != end) return RL_MALFORMED;
    at = buffers + 2 * n_buffers;
    rl_lock();
    for (int64_t i = 0; i < records && result == RL_OK; i++) {
        int64_t length = read(at, end - at, buffers, n_buffers, &call);
#if defined(__wasm__)
        int code = rl_run_kernel(at[0], &call);
#else
        int code = kernels[at[0]](&call);
#endif
        if (code != RL_OK) result = (int32_t)(i + 1) * 256 + code;
        at += length;
    }
    rl_unlock();
    return result;
}

#ifndef __wasm__
// Not a kernel: encodes WebGPU dispatches, which would otherwise be single calls from Python. `f`:
// the functions of webgpu.h that set a pipeline, set a bind group and dispatch. A dispatch has six
// words: pipeline and bind group (0: the same as before), offset of its parameters in the group
// `parameters` (-1: the same as before), workgroups along x, y and z.
RL_API void rl_encode(void *const *f, void *pass, void *parameters, const int64_t *w, int64_t n) {
    void (*pipeline)(void *, void *) = f[0];
    void (*group)(void *, uint32_t, void *, size_t, const uint32_t *) = f[1];
    void (*dispatch)(void *, uint32_t, uint32_t, uint32_t) = f[2];
    for (; n > 0; n--, w += 6) {
        uint32_t place = (uint32_t)w[2];
        if (w[0]) pipeline(pass, (void *)(intptr_t)w[0]);
        if (w[1]) group(pass, 0, (void *)(intptr_t)w[1], 0, NULL);
        if (w[2] >= 0) group(pass, 1, parameters, 1, &place);
        dispatch(pass, (uint32_t)w[3], (uint32_t)w[4], (uint32_t)w[5]);
    }
}
#endif
