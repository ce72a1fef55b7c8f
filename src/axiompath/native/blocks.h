/* Sums over blocks [rows, stride], LANES columns at a time; `stride` is a multiple of LANES.

Plain loops of a fixed length, for compilers to turn into vector instructions. Where it can, gcc makes a version of each
function for every width of vectors, and the first call picks one. No version reorders a sum or fuses a product into
it, so that all round alike. */

#include <stdint.h>
#include <string.h>

#define LANES 8

#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define VERSIONS(how) __attribute__((target_clones("arch=x86-64-v4", "avx2", "default"), unused)) how static
#define IN_REGISTERS __attribute__((optimize("no-tree-loop-vectorize"))) /* gcc keeps sums there if it only unrolls */
#else
#define VERSIONS(how) static inline
#endif

#ifdef __GNUC__
#define EACH(l) _Pragma("GCC unroll 8") for (int l = 0; l < LANES; l++)
#define ALONE __restrict__
#else
#define EACH(l) for (int l = 0; l < LANES; l++)
#define ALONE __restrict
#endif

/* Begin to bring `size` numbers into the cache. */
static inline void fetch(const void *place, int64_t size)
{
#ifdef __GNUC__
    for (int64_t d = 0; d < size; d += 8)
        __builtin_prefetch((const double *)place + d);
#endif
}

/* to += from, for one row. */
static inline void add_row(double *ALONE to, const double *ALONE from, int64_t stride)
{
    for (int64_t j = 0; j < stride; j += LANES)
        EACH(l) to[j + l] += from[j + l];
}

/* to += factor * slopes[:, None] * from; no slopes (NULL) stand for ones. */
VERSIONS() void add_block(
    double *ALONE to, const double *ALONE from, int64_t rows, int64_t stride, const double *slopes, double factor)
{
    for (int64_t d = 0; d < rows; d++) {
        const double rate = slopes ? factor * slopes[d] : factor;
        for (int64_t j = d * stride; j < (d + 1) * stride; j += LANES)
            EACH(l) to[j + l] += rate * from[j + l];
    }
}

/* to = weight @ block, for weight [rows, size]. */
VERSIONS(IN_REGISTERS) void map_block(
    double *ALONE to, const double *ALONE weight, const double *ALONE block, int64_t rows, int64_t size,
    int64_t stride)
{
    for (int64_t j = 0; j < stride; j += LANES) {
        int64_t n = 0;
        for (; n + 1 < rows; n += 2) {
            const double *first = weight + n * size, *second = first + size;
            double one[LANES] = {0}, two[LANES] = {0};
            for (int64_t d = 0; d < size; d++) {
                const double *row = block + d * stride + j;
                EACH(l) one[l] += first[d] * row[l];
                EACH(l) two[l] += second[d] * row[l];
            }
            EACH(l) to[n * stride + j + l] = one[l];
            EACH(l) to[(n + 1) * stride + j + l] = two[l];
        }
        if (n < rows) {
            double one[LANES] = {0};
            for (int64_t d = 0; d < size; d++)
                EACH(l) one[l] += weight[n * size + d] * block[d * stride + j + l];
            EACH(l) to[n * stride + j + l] = one[l];
        }
    }
}

/* to = factor * (values @ block). */
VERSIONS(IN_REGISTERS) void weigh_block(
    double *ALONE to, const double *ALONE values, const double *ALONE block, int64_t size, int64_t stride,
    double factor)
{
    for (int64_t j = 0; j < stride; j += LANES) {
        double even[LANES] = {0}, odd[LANES] = {0};
        int64_t d = 0;
        for (; d + 1 < size; d += 2) {
            const double *row = block + d * stride + j;
            EACH(l) even[l] += values[d] * row[l];
            EACH(l) odd[l] += values[d + 1] * row[stride + l];
        }
        if (d < size)
            EACH(l) even[l] += values[d] * block[d * stride + j + l];
        EACH(l) to[j + l] = factor * (even[l] + odd[l]);
    }
}

/* out [n, num_classes] += factors[entry] * (values[indices[entry]] @ block) for each of n entries, and their sum to
   total [stride]; `first` says that nothing is in `out` yet. Values lie `width` apart, factors `num_rules` apart. */
VERSIONS(IN_REGISTERS) void weigh_leaves(
    double *ALONE out, double *ALONE total, const int64_t *ALONE entries, int64_t n, const int32_t *ALONE indices,
    const double *ALONE factors, int64_t num_rules, const double *ALONE values, int64_t width,
    const double *ALONE block, int64_t size, int64_t stride, int64_t num_classes, int first)
{
    for (int64_t j = 0; j < stride; j += LANES) {
        const int64_t some = num_classes - j < LANES ? num_classes - j : LANES;
        double sums[LANES] = {0};
        for (int64_t i = 0; i < n; i++) {
            const double *row = values + indices[entries[i]] * width;
            const double factor = factors[entries[i] * num_rules];
            double even[LANES] = {0}, odd[LANES] = {0};
            double *share = out + i * num_classes + j;
            int64_t d = 0;
            if (i + 4 < n)
                fetch(values + indices[entries[i + 4]] * width, size);
            for (; d + 1 < size; d += 2) {
                const double *two = block + d * stride + j;
                EACH(l) even[l] += row[d] * two[l];
                EACH(l) odd[l] += row[d + 1] * two[stride + l];
            }
            if (d < size)
                EACH(l) even[l] += row[d] * block[d * stride + j + l];
            EACH(l) even[l] = factor * (even[l] + odd[l]);
            EACH(l) sums[l] += even[l];
            if (!first)
                for (int64_t l = 0; l < some; l++)
                    even[l] += share[l];
            memcpy(share, even, some * sizeof(double));
        }
        EACH(l) total[j + l] += sums[l];
    }
}

/* to = weight @ values, for weight [rows, size]. */
VERSIONS() void map_column(
    double *ALONE to, const double *ALONE weight, const double *ALONE values, int64_t rows, int64_t size)
{
    for (int64_t n = 0; n < rows; n++) {
        const double *row = weight + n * size;
        double sums[LANES] = {0}, total = 0.0;
        int64_t d = 0;
        for (; d + LANES <= size; d += LANES)
            EACH(l) sums[l] += row[d + l] * values[d + l];
        EACH(l) total += sums[l];
        for (; d < size; d++)
            total += row[d] * values[d];
        to[n] = total;
    }
}

/* to = base + own + weights @ factors, column by column, for factors [terms, stride]. */
VERSIONS(IN_REGISTERS) void weigh_columns(
    double *ALONE to, double base, const double *ALONE own, const double *ALONE weights, const double *ALONE factors,
    int64_t terms, int64_t stride, int64_t size)
{
    int64_t o = 0;
    for (; o + LANES <= size; o += LANES) {
        double sums[LANES];
        EACH(l) sums[l] = base + own[o + l];
        for (int64_t t = 0; t < terms; t++)
            EACH(l) sums[l] += weights[t] * factors[t * stride + o + l];
        EACH(l) to[o + l] = sums[l];
    }
    for (; o < size; o++) {
        double sum = base + own[o];
        for (int64_t t = 0; t < terms; t++)
            sum += weights[t] * factors[t * stride + o];
        to[o] = sum;
    }
}

/* min(x * low, x * high, cap) */
static inline double least_of(double x, double low, double high, double cap)
{
    const double one = x * low, other = x * high, least = one < other ? one : other;
    return least < cap ? least : cap;
}

/* Sum of that, with x = of_delta * delta + of_own * own. */
VERSIONS() double least_columns(
    const double *low, const double *high, const double *delta, const double *own, double of_delta, double of_own,
    double cap, int64_t size)
{
    double sums[LANES] = {0}, total = 0.0;
    int64_t d = 0;
    for (; d + LANES <= size; d += LANES)
        EACH(l) sums[l] += least_of(of_delta * delta[d + l] + of_own * own[d + l], low[d + l], high[d + l], cap);
    EACH(l) total += sums[l];
    for (; d < size; d++)
        total += least_of(of_delta * delta[d] + of_own * own[d], low[d], high[d], cap);
    return total;
}

/* What a leaf adds up to by its messages; factors of kept, gained, after, -lost, before. */
VERSIONS() double price_columns(
    const double *old, const double *new_, const double *delta, const double *after, const double *before,
    const double *factors, int64_t size)
{
    const double kept = factors[0], gained = factors[1], of_after = factors[2], lost = factors[3], of_before = factors[4];
    double sums[LANES] = {0}, total = 0.0;
    int64_t d = 0;
    for (; d + LANES <= size; d += LANES) {
        const double *o = old + d, *n = new_ + d;
        /* The difference is taken first: it may be far smaller than what it is a difference of. */
        EACH(l) sums[l] += kept * delta[d + l] * (n[l] - o[l]);
        EACH(l) sums[l] += (gained * delta[d + l] + of_after * after[d + l]) * n[l];
        EACH(l) sums[l] += (lost * delta[d + l] + of_before * before[d + l]) * o[l];
    }
    EACH(l) total += sums[l];
    for (; d < size; d++) {
        total += kept * delta[d] * (new_[d] - old[d]);
        total += (gained * delta[d] + of_after * after[d]) * new_[d] + (lost * delta[d] + of_before * before[d]) * old[d];
    }
    return total;
}
