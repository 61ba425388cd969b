// The windows of an image as the second operand of a matrix product, made panel by panel.

typedef struct image {
    const uint8_t *data;
    int32_t dtype, turned;       // turned: windows are columns
    int64_t n, c, h, w;          // strides of images, channels, rows and elements
    int64_t height, width, wide; // of a channel; elements in a row of the result
    int64_t channels, groups, step[2];
    int64_t count, (*taps)[3];   // offsets of a window's elements from step times its number, and
                                 // where they lie in a strip or in an image's phases
    int in_phases;                // see `phase_image`
} image;

// Of the windows at (y, x + t), t < n, a tap is inside the image for t = first to last. The first
// of these elements is at `at`, each next one `step` elements on.
typedef struct {
    int64_t first, last, step;
    const uint8_t *at;
} sight;

static sight image_sight(const image *m, const uint8_t *channel, int64_t tap, int64_t y, int64_t x,
                         int64_t n) {
    int64_t row = y * m->step[0] + m->taps[tap][0], from = x * m->step[1] + m->taps[tap][1];
    sight s = {0, 0, m->step[1] * m->w, channel};
    if (row < 0 || row >= m->height) return s;
    if (m->step[1] == 1) { // without divisions
        s.first = rl_min(n, rl_max(0, -from)), s.last = rl_min(n, m->width - from);
    } else {
        if (from < 0) s.first = rl_min(n, (-from + m->step[1] - 1) / m->step[1]);
        if (m->width > from) s.last = rl_min(n, (m->width - 1 - from) / m->step[1] + 1);
    }
    s.last = rl_max(s.first, s.last);
    if (s.first < s.last)
        s.at += (row * m->h + (from + s.first * m->step[1]) * m->w) * RL_SIZE[m->dtype];
    return s;
}

// to[t] = the element of a tap in each of these windows, 0 outside of the image.
static void image_run(const image *m, const uint8_t *channel, int64_t tap, int64_t y, int64_t x,
                      int64_t n, float *to) {
    sight s = image_sight(m, channel, tap, y, x, n);
    for (int64_t t = 0; t < s.first; t++) to[t] = 0;
    if (m->dtype == RL_F32 && s.step == 1) {
        for (; s.first + VF <= s.last; s.first += VF, s.at += VF * 4)
            vstore(to + s.first, vload(s.at));
        for (; s.first < s.last; s.first++, s.at += 4) rl_copy(to + s.first, s.at, 4);
    } else if (m->dtype == RL_F32 && s.step == 2)
        load_second(to + s.first, s.at, s.last - s.first);
    else if (s.first < s.last)
        LOAD_F[m->dtype](to + s.first, s.at, s.step, s.last - s.first);
    for (int64_t t = s.last; t < n; t++) to[t] = 0;
}

// The same for `n` elements from (y, x) on, row after row.
static void image_line(const image *m, const uint8_t *channel, int64_t tap, int64_t y, int64_t x,
                       int64_t n, float *to) {
    for (int64_t done = 0, some; done < n; done += some, y++, x = 0) {
        some = rl_min(n - done, m->wide - x);
        image_run(m, channel, tap, y, x, some, to + done);
    }
}

// The same for `size` floats, a panel's width or a vector, which lie together in one row or in two:
// they are copied as if there were no border, then those outside of it are cleared. 0 if they lie
// apart.
RL_INLINE int image_whole(const int64_t size, const image *m, const uint8_t *channel, int64_t tap,
                          int64_t y, int64_t x, float *to) {
    int64_t row = y + m->taps[tap][0], right = m->taps[tap][1], from = x + right;
    int64_t n = rl_min(size, m->wide - x), t;
    if (row < 0 || row + (n < size) >= m->height || row * m->h + from < 0 ||
        row * m->h + from + size > (m->height - 1) * m->h + m->width ||
        (n < size && (m->h != m->wide || m->wide < size)))
        return 0;
    channel += (row * m->h + from) * 4;
    vstore(to, vload(channel));
    if (size > VF) vstore(to + VF, vload(channel + VF * 4));
    // What the next panel reads: rows of many channels are too many streams for the processor.
    __builtin_prefetch(channel + PANEL * 4), __builtin_prefetch(channel + PANEL * 8 - 4);
    if (n == size && from >= 0 && from + size <= m->width) return 1;
    RL_SMALL_LOOP for (t = 0; t < rl_min(n, -from); t++) to[t] = 0;
    RL_SMALL_LOOP for (t = rl_max(0, m->width - from); t < n; t++) to[t] = 0;
    RL_SMALL_LOOP for (t = n; t < rl_min(size, n - right); t++) to[t] = 0;
    RL_SMALL_LOOP for (t = n + rl_max(0, m->width - right); t < size; t++) to[t] = 0;
    return 1;
}

#if RL_ROOM
// The same for windows two elements apart, a vector of which lies in one row: 0 where they do not.
static int image_second(const image *m, const uint8_t *channel, int64_t tap, int64_t y, int64_t x,
                        float *to) {
    int64_t row = y * m->step[0] + m->taps[tap][0], from = 2 * x + m->taps[tap][1];
    if (x + VF > m->wide || from < 0 || from + 2 * VF > m->width) return 0;
    if (row < 0 || row >= m->height) {
        vstore(to, (vf){});
        return 1;
    }
    channel += (row * m->h + from) * 4;
    vstore(to, EVEN(vload(channel), vload(channel + VF * 4)));
    return 1;
}
#endif

#if RL_ROOM
// An image with its border whose elements are as far apart as windows are: in the phase of a tap,
// what it sees in neighbouring windows lies side by side.
typedef struct {
    const image *m;
    float *to;
    int64_t least[2], slots, high, pitch, at[PHASES][2]; // the first element of each phase
} phases_of;

// Floats of the phases of a channel, of which windows of `size` see `high` lines; 0 if they do not
// pay. steps, apart: of windows, and of elements of one.
static int64_t phase_floats(const int64_t size[2], const int64_t steps[2], const int64_t apart[2],
                           int64_t high, int64_t wide) {
    int64_t slots = 1, length[2] = {high, wide};
    for (int d = 0; d < 2; d++) {
        int64_t most = rl_max(rl_max(size[d], apart[d]), steps[d]);
        if (rl_min(size[d], apart[d]) < 1 || most > 1 << 30) return 0; // refused later
        slots *= rl_min(size[d], steps[d]);
        length[d] += (size[d] - 1) * apart[d] / steps[d] + 1;
    }
    int64_t floats = rl_times(slots, rl_times(length[0], length[1]));
    return steps[0] * steps[1] > 1 && slots <= PHASES && floats < 1 << 22 ? floats : 0;
}

static void phase_item(void *ctx, int64_t item, int thread) {
    (void)thread;
    const phases_of *job = ctx;
    const image *m = job->m;
    int64_t channels = m->groups * m->channels;
    const uint8_t *from = m->data;
    from += (item / channels * m->n + item % channels * m->c) * RL_SIZE[m->dtype];
    float *to = job->to + item * job->slots * job->high * job->pitch;
    for (int64_t s = 0; s < job->slots; s++) {
        row_cut cut = cut_row(m->dtype, m->w, m->width, job->least[1] + job->at[s][1], m->step[1],
                              job->pitch);
        int64_t row = job->least[0] + job->at[s][0];
        for (int64_t r = 0; r < job->high; r++, row += m->step[0], to += job->pitch) {
            if (row < 0 || row >= m->height) rl_zero(to, (size_t)job->pitch * 4);
            else load_row(&cut, to, from + row * m->h * RL_SIZE[m->dtype], 0);
        }
    }
}

// Makes `m` the image of its phases, which `to` has room for.
static void phase_image(image *m, int64_t batch, int64_t high, float *to) {
    phases_of job = {m, to, {m->taps[0][0], m->taps[0][1]}, 0, 0, 0, {{0}}};
    int64_t most[2] = {job.least[0], job.least[1]};
    for (int64_t t = 0; t < m->count; t++)
        for (int d = 0; d < 2; d++) {
            job.least[d] = rl_min(job.least[d], m->taps[t][d]);
            most[d] = rl_max(most[d], m->taps[t][d]);
        }
    job.high = high + (most[0] - job.least[0]) / m->step[0];
    job.pitch = m->wide + (most[1] - job.least[1]) / m->step[1];
    for (int64_t t = 0; t < m->count; t++) {
        int64_t y = m->taps[t][0] - job.least[0], x = m->taps[t][1] - job.least[1], s = 0;
        while (s < job.slots &&
               (job.at[s][0] != y % m->step[0] || job.at[s][1] != x % m->step[1]))
            s++;
        if (s == job.slots) {
            job.at[s][0] = y % m->step[0], job.at[s][1] = x % m->step[1];
            job.slots++;
        }
        m->taps[t][2] = (s * job.high + y / m->step[0]) * job.pitch + x / m->step[1];
    }
    int64_t floats = job.slots * job.high * job.pitch, channels = m->groups * m->channels;
    double work = 10.0 * (double)(batch * channels) * (double)floats;
    share_out(work, batch * channels, phase_item, &job);
    m->data = (const uint8_t *)to, m->dtype = RL_F32, m->in_phases = 1;
    m->n = channels * floats, m->c = floats, m->h = job.pitch, m->w = 1;
}

// pack() for windows of an image in phases, line by line: whole vectors, what they bring beyond a
// line is written over.
static void phases_panel(const image *m, const float *base, float *to, int64_t width, int64_t k0,
                        int64_t depth, int64_t j0, int64_t n) {
    int64_t tap = k0 % m->count, x = j0 % m->wide;
    const float *from = base + k0 / m->count * m->c + j0 / m->wide * m->h + x;
    for (int64_t t = 0; t < depth; t++, to += width) {
        const float *line = from + m->taps[tap][2];
        int64_t some = rl_min(n, m->wide - x), next = m->h - x;
        for (int64_t done = 0; done < n; line += next, next = m->h) {
            for (int64_t i = 0; i < some; i += VF) vstore(to + done + i, vload(line + i));
            done += some, some = rl_min(n - done, m->wide);
        }
        for (int64_t rest = n; rest < width; rest++) to[rest] = 0;
        if (++tap == m->count) tap = 0, from += m->c;
    }
}
#endif

// The first channel of product `index` of the batch: image by image, group by group.
static const uint8_t *image_of(const image *m, int64_t index) {
    int64_t at = index / m->groups * m->n + index % m->groups * m->channels * m->c;
    return m->data + at * RL_SIZE[m->dtype];
}

// pack() for windows.
static void image_panel(const product *p, int64_t index, float *to, int64_t width, int64_t k0,
                        int64_t depth, int64_t j0, int64_t n, float *rows) {
    const image *m = p->image;
    const uint8_t *base = image_of(m, index);
#if RL_ROOM
    if (m->in_phases) {
        phases_panel(m, (const float *)(const void *)base, to, width, k0, depth, j0, n);
        return;
    }
#endif
    int64_t at = m->turned ? j0 : k0, count = m->turned ? n : depth, channel = at / m->count;
    int64_t tap = at % m->count, first = m->turned ? k0 : j0;
    int64_t y = first / m->wide, x = first % m->wide;
    int run = m->step[0] * m->step[1] * m->w == 1 && m->dtype == RL_F32 && n == PANEL;
#if RL_ROOM
    int by_vectors = m->w == 1 && m->dtype == RL_F32 && n % VF == 0 && !m->turned &&
                     (m->step[1] == 2 || (m->step[0] * m->step[1] == 1 && m->wide < PANEL));
    int64_t y2 = (first + VF) / m->wide, x2 = (first + VF) % m->wide;
#endif
    for (int64_t t = 0; t < count; t++) {
        const uint8_t *from = base + channel * m->c * RL_SIZE[m->dtype];
        if (m->turned) {
            const float *four[4] = {rows, rows + DEPTH, rows + 2 * DEPTH, rows + 3 * DEPTH};
            if (t % 4 == 0) rl_zero(rows, 4 * DEPTH * 4);
            image_line(m, from, tap, y, x, depth, rows + t % 4 * DEPTH);
            if (t % 4 == 3 || t == n - 1) turn_four(to + (t & ~(int64_t)3), width, four, depth);
#if RL_ROOM
        } else if (by_vectors) {
            float *at = to + t * width;
            for (int64_t v = 0; v < n; v += VF)
                if (!(m->step[1] > 1
                          ? image_second(m, from, tap, v ? y2 : y, v ? x2 : x, at + v)
                          : image_whole(VF, m, from, tap, v ? y2 : y, v ? x2 : x, at + v)))
                    image_line(m, from, tap, v ? y2 : y, v ? x2 : x, VF, at + v);
#endif
        } else if (!run || !image_whole(PANEL, m, from, tap, y, x, to + t * width)) {
            image_line(m, from, tap, y, x, n, to + t * width);
            for (int64_t rest = n; rest < width; rest++) to[t * width + rest] = 0;
        }
        if (++tap == m->count) tap = 0, channel++;
    }
    for (int64_t t = (n + 3) & ~(int64_t)3; m->turned && t < width; t++)
        for (int64_t d = 0; d < depth; d++) to[d * width + t] = 0;
}
