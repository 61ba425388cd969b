// Convolutions of bytes in which each channel has filters of its own, exact: sums of fewer than
// 2**24 in float32. Ends are those of products of bytes.

#define PLANE_BYTES (48 << 10) // of a part's lines as floats, at most, where lines are not vast
#define DEPTH_ROWS 4           // lines that are summed at once
#define BYTE_TAPS 256          // 256 * 255 * 255 < 2**24

typedef struct {
    const rl_call *call;
    int64_t channels, filters, high, wide;   // sizes of the result
    int64_t height, width;                   // of the image
    int64_t kernel[2], step[2], dilation[2]; // down and across
    int64_t up, left;                        // the padding
    int64_t lines, parts;                    // lines of the result in a part, parts of a plane
    int64_t phase, pitch;                    // floats of a line's columns of one phase, of a line
    int64_t places[BYTE_TAPS];               // where a tap reads, from a window's beginning on
} depth_job;

// Line `row` of an image, from padding on, each column with those of its phase.
static void depth_line(const depth_job *job, const rl_operand *x, const uint8_t *plane, int64_t row,
                       float zero, float *line, float *to) {
    int64_t step = job->step[1], some = job->pitch;
    float *at = step == 1 ? to : line;
    rl_zero(at, (size_t)some * 4);
    if (row >= 0 && row < job->height) {
        const uint8_t *from = plane + row * x->strides[2];
        int64_t first = job->left, n = rl_min(job->width, some - first);
        uint8_t flip = x->dtype == RL_I8 ? 0x80 : 0;
        vf less = vsplat(zero);
        int64_t i = 0;
        for (; n >= VF && i < n; i += VF) { // the last columns may be read twice
            i = rl_min(i, n - VF);
            vi whole = __builtin_convertvector(vbload(from + i) ^ flip, vi);
            vstore(at + first + i, __builtin_convertvector(whole, vf) - less);
        }
        for (; i < n; i++) at[first + i] = (float)(from[i] ^ flip) - zero;
    }
    if (step == 1) return;
    int64_t done = 0;
    if (step == 2)
        for (; done + VF <= job->phase; done += VF) {
            vf a = vload(line + 2 * done), b = vload(line + 2 * done + VF);
            vstore(to + done, EVEN(a, b));
            vstore(to + job->phase + done, ODD(a, b));
        }
    for (int64_t p = 0; p < step; p++)
        for (int64_t i = done; i < job->phase; i++) to[p * job->phase + i] = line[i * step + p];
}

// Sums of four lines of windows, of VF columns or of twice as many.
RL_INLINE void depth_sums(const int both, const float *const *from, const float *by,
                          const int64_t *places, int64_t count, int32_t *to) {
    vf a[DEPTH_ROWS] = {{0}}, b[DEPTH_ROWS] = {{0}};
    for (int64_t t = 0; t < count; t++) {
        vf tap = vsplat(by[t]);
        for (int r = 0; r < DEPTH_ROWS; r++) {
            const float *at = from[r] + places[t];
            a[r] = vfma(tap, vload(at), a[r]);
            if (both) b[r] = vfma(tap, vload(at + VF), b[r]);
        }
    }
    for (int r = 0; r < DEPTH_ROWS; r++, to += BYTE_COLS) {
        vistore(to, __builtin_convertvector(a[r], vi));
        vistore(to + VF, __builtin_convertvector(b[r], vi));
    }
}

static void depth_item(void *ctx, int64_t item, int thread) {
    const depth_job *job = ctx;
    const rl_call *call = job->call;
    const rl_operand *out = &call->op[0], *x = &call->op[1], *w = &call->op[2];
    int64_t first = item % job->parts * job->lines, filter = item / job->parts % job->filters;
    int64_t image = item / job->parts / job->filters, lines = rl_min(job->lines, job->high - first);
    int64_t channel = filter / (job->filters / job->channels), count = 0;
    const uint8_t *plane = x->data + image * x->strides[0] + channel * x->strides[1];
    float *line = rl_scratch(thread, 0), *room = line + job->pitch;
    float zero = (float)(byte_at(&call->op[3], 0, 0) + (x->dtype == RL_I8 ? 128 : 0));
    float less = (float)byte_at(&call->op[4], filter, 0), by[BYTE_TAPS];
    int64_t seen = (lines - 1) * job->step[0];
    seen += (job->kernel[0] - 1) * job->dilation[0] + 1;
    for (int64_t r = 0; r < seen; r++)
        depth_line(job, x, plane, first * job->step[0] - job->up + r, zero, line,
                   room + r * job->pitch);
    for (int64_t i = 0; i < job->kernel[0]; i++)
        for (int64_t j = 0; j < job->kernel[1]; j++, count++) {
            uint8_t tap = *(w->data + filter * w->strides[0] + i * w->strides[2] +
                            j * w->strides[3]);
            by[count] = (float)(w->dtype == RL_I8 ? (int8_t)tap : tap) - less;
        }
    byte_end e = {.low = out->dtype == RL_I8 ? -128 : 0, .high = out->dtype == RL_I8 ? 127 : 255};
    e.offset = (float)byte_at(&call->op[7], 0, 0);
    const rl_operand *bias = &call->op[5];
    byte_end_at(bias, filter, 0, 0, 1, bias->dtype == RL_F32 ? (void *)e.bias : (void *)e.whole);
    byte_end_at(&call->op[6], filter, 0, 0, 1, e.scale);
    int64_t size = RL_SIZE[out->dtype];
    uint8_t *to = out->data + (image * out->strides[0] + filter * out->strides[1] +
                               first * out->strides[2]) * size;
    int32_t sums[DEPTH_ROWS * BYTE_COLS];
    int64_t below = job->step[0] * job->pitch, next = out->strides[2] * size;
    for (int64_t y = 0; y < lines; y += DEPTH_ROWS, to += DEPTH_ROWS * next) {
        int64_t rows = rl_min(DEPTH_ROWS, lines - y);
        for (int64_t j = 0; j < job->wide; j += BYTE_COLS) {
            const float *from[DEPTH_ROWS]; // after the last line it is summed again
            int64_t n = rl_min(BYTE_COLS, job->wide - j);
            for (int64_t r = 0; r < DEPTH_ROWS; r++)
                from[r] = room + (y + rl_min(r, rows - 1)) * below + j;
            if (n > VF) depth_sums(1, from, by, job->places, count, sums);
            else depth_sums(0, from, by, job->places, count, sums);
            for (int64_t r = 0; r < rows; r++)
                byte_finish_row(call, sums + r * BYTE_COLS, 0, &e, to + r * next + j * size, n);
        }
    }
}

// Numbers of filters, each of them again in a second column of stride 0; or none.
static int depth_fits(const rl_operand *x, int dtype, int64_t filters) {
    return byte_fits(x, dtype) &&
           (x->ndim < 0 || (x->ndim == 2 && x->shape[0] == filters && !x->strides[1]));
}

// out and x (n, channels, height, width), filters (filters, 1, high, wide), zero points of x and of
// the filters, bias, scale, zero point of the result. Attributes: steps, padding above and on the
// left, dilation. What the result is past the padding that is told is padding too.
static int k_byte_depthwise(const rl_call *call) {
    const rl_operand *out = &call->op[0], *x = &call->op[1], *w = &call->op[2];
    const rl_operand *bias = &call->op[5], *scale = &call->op[6];
    if (call->n != 8 || call->n_attrs != 6 || out->ndim != 4 || x->ndim != 4 || w->ndim != 4)
        return RL_REFUSED;
    int to_float = out->dtype == RL_F32, sums = out->dtype == RL_I32;
    if (!is_bytes(x) || !is_bytes(w) || !(to_float || sums || is_bytes(out))) return RL_REFUSED;
    depth_job job = {.call = call, .channels = x->shape[1], .filters = w->shape[0],
                     .high = out->shape[2], .wide = out->shape[3], .height = x->shape[2],
                     .width = x->shape[3], .up = call->attrs[2], .left = call->attrs[3]};
    for (int d = 0; d < 2; d++) {
        job.kernel[d] = w->shape[2 + d], job.step[d] = call->attrs[d];
        job.dilation[d] = call->attrs[4 + d];
        if (job.step[d] < 1 || job.step[d] > 64 || job.dilation[d] < 1 || job.dilation[d] > 4096 ||
            job.kernel[d] > BYTE_TAPS || call->attrs[2 + d] < 0 || call->attrs[2 + d] > 4096)
            return RL_REFUSED;
    }
    if (!depth_fits(&call->op[4], -1, job.filters) || !byte_fits(&call->op[3], -1) ||
        !byte_fits(&call->op[7], -1) || !depth_fits(scale, RL_F32, job.filters) ||
        !(depth_fits(bias, RL_F32, job.filters) ||
          (!to_float && depth_fits(bias, RL_I32, job.filters))))
        return RL_REFUSED;
    if (sums ? scale->ndim >= 0 || bias->ndim >= 0 : scale->ndim < 0) return RL_REFUSED;
    if (out->shape[0] != x->shape[0] || out->shape[1] != job.filters || w->shape[1] != 1 ||
        (x->strides[3] != 1 && job.width > 1) || (out->strides[3] != 1 && job.wide > 1) ||
        job.kernel[0] * job.kernel[1] > BYTE_TAPS)
        return RL_REFUSED;
    for (int i = 3; i < 8; i += 4)
        if (call->op[i].ndim >= 0 && (call->op[i].shape[0] < 1 || call->op[i].shape[1] < 1))
            return RL_REFUSED;
    if (!out->shape[0] || !job.filters || !job.high || !job.wide) return RL_OK;
    if (!job.channels || job.filters % job.channels) return RL_REFUSED;
    int64_t more = (job.kernel[1] - 1) * job.dilation[1] / job.step[1] + 1;
    job.phase = ((job.wide + VF - 1) / VF * VF + more + VF - 1) / VF * VF;
    job.pitch = rl_times(job.phase, job.step[1]);
    for (int64_t t = 0; t < job.kernel[0] * job.kernel[1]; t++) {
        int64_t row = t / job.kernel[1] * job.dilation[0];
        int64_t column = t % job.kernel[1] * job.dilation[1];
        job.places[t] = row * job.pitch + column % job.step[1] * job.phase + column / job.step[1];
    }
    int64_t most = PLANE_BYTES / 4 / rl_max(1, job.pitch) - (job.kernel[0] - 1) * job.dilation[0];
    job.lines = rl_min(job.high, rl_max(most / job.step[0], 4));
    job.parts = (job.high + job.lines - 1) / job.lines;
    job.lines = (job.high + job.parts - 1) / job.parts; // of nearly equal numbers of lines
    int64_t seen = (job.lines - 1) * job.step[0] + (job.kernel[0] - 1) * job.dilation[0] + 2;
    int64_t bytes = rl_times(rl_times(seen, job.pitch), 4);
    if (bytes > INT64_MAX / 2 || !reserve(bytes)) return RL_MEMORY;
    double work = (double)job.high * (double)job.wide * (double)job.filters *
                  (double)out->shape[0] * (double)(job.kernel[0] * job.kernel[1] + 8);
    share_out(work, out->shape[0] * job.filters * job.parts, depth_item, &job);
    return RL_OK;
}
