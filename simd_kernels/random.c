// Random numbers: Philox4x32-10 (Salmon et al., SC 2011), as core/basis/philox.py defines them.

#define BLOCKS 16 // blocks of four words that are computed together

// The words of BLOCKS blocks from number `block` on.
static RL_APART void philox_words(uint64_t block, uint64_t seed, uint32_t *to) {
    uint32_t x[4][BLOCKS], k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int i = 0; i < BLOCKS; i++) {
        uint64_t number = block + (uint64_t)i;
        x[0][i] = (uint32_t)number, x[1][i] = (uint32_t)(number >> 32);
        x[2][i] = x[3][i] = 0;
    }
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
        for (int i = 0; i < BLOCKS; i++) {
            uint64_t p = (uint64_t)x[0][i] * 0xD2511F53u, q = (uint64_t)x[2][i] * 0xCD9E8D57u;
            x[0][i] = (uint32_t)(q >> 32) ^ x[1][i] ^ k0;
            x[1][i] = (uint32_t)q;
            x[2][i] = (uint32_t)(p >> 32) ^ x[3][i] ^ k1;
            x[3][i] = (uint32_t)p;
        }
    for (int i = 0; i < BLOCKS; i++)
        for (int j = 0; j < 4; j++) to[4 * i + j] = x[j][i];
}

static void random_item(void *ctx, int64_t item, int thread) {
    (void)thread;
    const rl_call *c = ctx;
    const rl_operand *out = &c->op[0];
    int64_t stop = rl_min(rl_numel(out), (item + 1) * ITEM), normal = c->attrs[0];
    uint64_t seed = (uint64_t)c->attrs[1], first = (uint64_t)c->attrs[2];
    int bits = (int)c->attrs[3];
    for (int64_t s = item * ITEM; s < stop; s += PIECE) {
        int64_t n = rl_min(PIECE, stop - s), words = normal ? 2 * n : n;
        uint32_t word[2 * PIECE];
        float y[2 * PIECE], a[PIECE];
        for (int64_t i = 0; i < words; i += 4 * BLOCKS)
            philox_words(first + (uint64_t)((normal ? 2 * s : s) + i) / 4, seed, word + i);
        if (!normal) {
            float unit = 1.0f / (float)(1u << bits);
            for (int64_t i = 0; i < n; i++) y[i] = (float)(int32_t)(word[i] >> (32 - bits)) * unit;
        } else {
            for (int64_t i = 0; i < n; i++) {
                y[i] = ((float)(int32_t)(word[2 * i] >> 8) + 0.5f) * 0x1p-24f;
                a[i] = (float)(int32_t)(word[2 * i + 1] >> 8) * 3.7450704e-07f; // 2 pi / 2 ** 24
            }
            for (int64_t i = 0; i < n; i += VF)
                vstore(y + i, vsqrt(-2.0f * vlog(vload(y + i))) * sine_of(vload(a + i), 1));
        }
        map_store(FLOATS, out, y, s, 1, n);
    }
}

// Uniform numbers in [0, 1) of the upper bits of a word each, or normal ones (Box and Muller, 1958)
// of two words each. attrs: whether they are normal, seed, number of the first block, bits.
static RL_ONCE int k_random(const rl_call *c) {
    const rl_operand *out = &c->op[0];
    if (c->n != 1 || c->n_attrs != 4 || out->ndim < 0 || !IS_FLOAT(out->dtype)) return RL_REFUSED;
    if (c->attrs[3] < 1 || c->attrs[3] > 24) return RL_REFUSED;
    int64_t step = 1;
    for (int d = out->ndim - 1; d >= 0; step *= out->shape[d], d--)
        if (out->shape[d] != 1 && out->strides[d] != step) return RL_REFUSED;
    int64_t n = rl_numel(out);
    run_items((n + ITEM - 1) / ITEM, n, random_item, (void *)c);
    return RL_OK;
}
