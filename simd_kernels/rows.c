// The inner loops of reductions: sums and extremes of rows, and of columns row by row.

enum { SUM, MAX, MIN };

// The larger or the smaller one; NaN if either is NaN.
RL_INLINE vf vextreme(vf a, vf b, int kind) {
    vi wins = (kind == MAX ? (vi)(a > b) : (vi)(a < b)) | (vi)(a != a);
    return vselect(wins & (vi)(b == b), a, b);
}

static RL_APART float extreme_of(const float *x, int64_t n, int kind, float best) {
    // The smallest is the largest with all signs turned; a NaN is noted beside.
    vi turn = (vi){} + (kind == MAX ? 0 : VSIGN), nan = {};
    vf found[4];
    for (int k = 0; k < 4; k++) found[k] = (vf)((vi)vsplat(best) ^ turn);
    int64_t i = 0;
    for (; i + 4 * VF <= n; i += 4 * VF) {
        vf a[4];
        for (int k = 0; k < 4; k++) {
            a[k] = (vf)((vi)vload(x + i + k * VF) ^ turn);
            found[k] = vmax(a[k], found[k]);
        }
        nan |= ((vi)(a[0] != a[0]) | (vi)(a[1] != a[1])) |
               ((vi)(a[2] != a[2]) | (vi)(a[3] != a[3]));
    }
    RL_SMALL_LOOP for (; i < n; i += VF) {
        vf a = (vf)((vi)vkeep(row_load(x + i, n - i), n - i, best) ^ turn);
        found[0] = vmax(a, found[0]);
        nan |= (vi)(a != a);
    }
    vf last = vmax(vmax(found[2], found[3]), vmax(found[1], found[0]));
    for (int half = VF / 2; half; half /= 2)
        for (int k = 0; k < half; k++) {
            last[k] = last[k + half] > last[k] ? last[k + half] : last[k];
            nan[k] |= nan[k + half];
        }
    float top = last[0];
    if (nan[0]) return __builtin_nanf("");
    return best != best ? best : kind == MAX ? top : -top;
}

// The sum of n floats: blocks in float, those of each ITEM in double, and these in double.
static RL_APART double row_total(const float *x, int64_t n) {
    double total = 0, sums = 0;
    for (int64_t s = 0; s < n; s += BLOCK) {
        vf sum[4] = {{0}};
        int64_t stop = rl_min(n, s + BLOCK), i = s;
        for (; i + 4 * VF <= stop; i += 4 * VF)
            for (int k = 0; k < 4; k++) sum[k] += vload(x + i + k * VF);
        for (; i < stop; i += VF) sum[0] += row_load(x + i, stop - i);
        total += vsum((sum[0] + sum[1]) + (sum[2] + sum[3]));
        if (stop % ITEM == 0) sums += total, total = 0;
    }
    return sums + total;
}

// to[j] = x[j] combined with y[j]; `to` has room for whole vectors, and may be y.
static RL_APART void combine_rows(float *to, const float *x, const float *y, int64_t n, int kind) {
    int64_t j = 0;
    if (kind == SUM)
        RL_SMALL_LOOP for (; j + VF <= n; j += VF) vstore(to + j, vload(y + j) + vload(x + j));
    if (kind == MAX)
        for (; j + VF <= n; j += VF) {
            vf a = vload(x + j), b = vload(y + j);
            vstore(to + j, vselect((vi)(a > b) | (vi)(a != a), a, b));
        }
    RL_SMALL_LOOP for (; j < n; j += VF) {
        vf a = row_load(x + j, n - j), b = row_load(y + j, n - j);
        vstore(to + j, kind == SUM ? a + b : vextreme(a, b, kind));
    }
}

// best[j] plus four rows, `step` apart, at j.
static RL_APART void add_four_rows(float *best, const float *r, int64_t step, int64_t n) {
    int64_t j = 0;
    for (; j + VF <= n; j += VF) {
        vf a = vload(r + j) + vload(r + step + j);
        vf b = vload(r + 2 * step + j) + vload(r + 3 * step + j);
        vstore(best + j, vload(best + j) + (a + b));
    }
    RL_SMALL_LOOP for (; j < n; j++)
        best[j] += (fload(r + j) + fload(r + step + j)) +
                   (fload(r + 2 * step + j) + fload(r + 3 * step + j));
}

// The sum or extreme of each of `rows` rows, `step` apart, of n floats.
static RL_APART void reduce_rows(float *out, const float *x, int64_t step, int64_t rows, int64_t n,
                                 int kind) {
    for (int64_t i = 0; i < rows; i++, x += step)
        fstore(out + i, kind == SUM ? (float)row_total(x, n) : extreme_of(x, n, kind, fload(x)));
}
