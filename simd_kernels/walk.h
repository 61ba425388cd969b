// Walks over the elements of operands of one shape. Contiguous dims are joined, so that the inner
// dim, along which a kernel's loops run, is long.
#ifndef WALK_H
#define WALK_H
#include "math.h"
#include "rl.h"

#define WALK_OPERANDS 4

typedef struct {
    int n, outer_dims;
    int64_t inner, outer;          // elements of a run along the inner dim; number of runs
    int64_t step[WALK_OPERANDS];   // strides of the inner dim
    int64_t shape[RL_DIMS], strides[WALK_OPERANDS][RL_DIMS]; // of the outer dims
} rl_walk;

typedef struct {
    int64_t index[RL_DIMS], at[WALK_OPERANDS]; // at: elements from each operand's start
} rl_place;

// Whether the operands have one shape.
static RL_ONCE int same_shapes(const rl_operand *const *x, int n) {
    for (int i = 1; i < n; i++) {
        if (x[i]->ndim != x[0]->ndim) return 0;
        for (int d = 0; d < x[0]->ndim; d++)
            if (x[i]->shape[d] != x[0]->shape[d]) return 0;
    }
    return 1;
}

// A walk over operands of one shape. `dim` stays the inner dim and is not joined; -1: any dim.
static RL_ONCE rl_walk walk_over(const rl_operand *const *x, int n, int dim) {
    rl_walk w = {.n = n, .outer_dims = 0, .inner = 1, .outer = 1};
    int64_t shape[RL_DIMS], strides[WALK_OPERANDS][RL_DIMS];
    int dims = 0;
    for (int d = 0; d < x[0]->ndim; d++) {
        int64_t size = x[0]->shape[d];
        if (size == 1 || d == dim) continue;
        int joins = dims > 0;
        for (int i = 0; i < n && joins; i++)
            joins = strides[i][dims - 1] == x[i]->strides[d] * size;
        if (!joins) dims++;
        shape[dims - 1] = joins ? shape[dims - 1] * size : size;
        for (int i = 0; i < n; i++) strides[i][dims - 1] = x[i]->strides[d];
    }
    if (dim >= 0) {
        w.inner = x[0]->shape[dim];
        for (int i = 0; i < n; i++) w.step[i] = x[i]->strides[dim];
    } else if (dims) {
        dims--;
        w.inner = shape[dims];
        for (int i = 0; i < n; i++) w.step[i] = strides[i][dims];
    } else
        for (int i = 0; i < n; i++) w.step[i] = 1;
    w.outer_dims = dims;
    for (int d = 0; d < dims; d++) {
        w.outer *= w.shape[d] = shape[d];
        for (int i = 0; i < n; i++) w.strides[i][d] = strides[i][d];
    }
    return w;
}

// The offsets of run `item` of the outer dims.
static RL_APART rl_place walk_to(const rl_walk *w, int64_t item) {
    rl_place p = {{0}, {0}};
    for (int d = w->outer_dims - 1; d >= 0 && item; d--) {
        p.index[d] = item % w->shape[d];
        item /= w->shape[d];
        for (int i = 0; i < w->n; i++) p.at[i] += p.index[d] * w->strides[i][d];
    }
    return p;
}

static RL_APART void walk_on(const rl_walk *w, rl_place *p) {
    for (int d = w->outer_dims - 1; d >= 0; d--) {
        int more = ++p->index[d] < w->shape[d];
        for (int i = 0; i < w->n; i++)
            p->at[i] += more ? w->strides[i][d] : -(w->shape[d] - 1) * w->strides[i][d];
        if (more) return;
        p->index[d] = 0;
    }
}

#endif
