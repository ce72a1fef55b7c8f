/* Sums over blocks [rows, stride], LANES columns at a time; `stride` is a multiple of LANES.

Where it can, the compiler makes a version of each function for every width of vectors, and the first call picks one.
No version reorders a sum or fuses a product into it, so that all round alike. */

#include <stdint.h>

#define LANES 8
typedef double Lanes __attribute__((vector_size(8 * LANES), aligned(8), may_alias));
#define AT(place) (*(Lanes *)(place))
#define ROW(place) (*(const Lanes *)(place))

#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__SANITIZE_ADDRESS__)
#define VERSIONS __attribute__((target_clones("arch=x86-64-v4", "avx2", "default"), unused))
#else
#define VERSIONS __attribute__((unused))
#endif

/* Begin to bring `size` numbers into the cache. */
static inline void fetch(const void *place, int64_t size)
{
    for (int64_t d = 0; d < size; d += 8)
        __builtin_prefetch((const double *)place + d);
}

/* to += from, for one row. */
static inline void add_row(double *to, const double *from, int64_t stride)
{
    for (int64_t j = 0; j < stride; j += LANES)
        AT(to + j) += ROW(from + j);
}

/* to += factor * slopes[:, None] * from; no slopes (NULL) stand for ones. */
VERSIONS static void add_block(
    double *to, const double *from, int64_t rows, int64_t stride, const double *slopes, double factor)
{
    for (int64_t d = 0; d < rows; d++) {
        const double rate = slopes ? factor * slopes[d] : factor;
        for (int64_t j = d * stride; j < (d + 1) * stride; j += LANES)
            AT(to + j) += rate * ROW(from + j);
    }
}

/* to = weight @ block, for weight [rows, size]. */
VERSIONS static void map_block(
    double *to, const double *weight, const double *block, int64_t rows, int64_t size, int64_t stride)
{
    for (int64_t j = 0; j < stride; j += LANES) {
        int64_t n = 0;
        for (; n + 1 < rows; n += 2) {
            const double *first = weight + n * size, *second = first + size;
            Lanes one = {0}, two = {0};
            for (int64_t d = 0; d < size; d++) {
                one += first[d] * ROW(block + d * stride + j);
                two += second[d] * ROW(block + d * stride + j);
            }
            AT(to + n * stride + j) = one;
            AT(to + (n + 1) * stride + j) = two;
        }
        if (n < rows) {
            Lanes one = {0};
            for (int64_t d = 0; d < size; d++)
                one += weight[n * size + d] * ROW(block + d * stride + j);
            AT(to + n * stride + j) = one;
        }
    }
}

/* to = factor * (values @ block). */
VERSIONS static void weigh_block(
    double *to, const double *values, const double *block, int64_t size, int64_t stride, double factor)
{
    for (int64_t j = 0; j < stride; j += LANES) {
        Lanes even = {0}, odd = {0};
        int64_t d = 0;
        for (; d + 1 < size; d += 2) {
            even += values[d] * ROW(block + d * stride + j);
            odd += values[d + 1] * ROW(block + (d + 1) * stride + j);
        }
        if (d < size)
            even += values[d] * ROW(block + d * stride + j);
        AT(to + j) = factor * (even + odd);
    }
}

/* to = weight @ values, for weight [rows, size]. */
VERSIONS static void map_column(double *to, const double *weight, const double *values, int64_t rows, int64_t size)
{
    for (int64_t n = 0; n < rows; n++) {
        const double *row = weight + n * size;
        Lanes sums = {0};
        double total = 0.0;
        int64_t d = 0;
        for (; d + LANES <= size; d += LANES)
            sums += ROW(row + d) * ROW(values + d);
        for (int l = 0; l < LANES; l++)
            total += sums[l];
        for (; d < size; d++)
            total += row[d] * values[d];
        to[n] = total;
    }
}

/* Sum of min(x * low, x * high, cap) with x = of_delta * delta + of_own * own. */
VERSIONS static double least_columns(
    const double *low, const double *high, const double *delta, const double *own, double of_delta, double of_own,
    double cap, int64_t size)
{
    Lanes sums = {0};
    double total = 0.0;
    int64_t d = 0;
    for (; d + LANES <= size; d += LANES) {
        Lanes x = of_delta * ROW(delta + d) + of_own * ROW(own + d), one = x * ROW(low + d), other = x * ROW(high + d);
        for (int l = 0; l < LANES; l++) {
            double least = one[l] < other[l] ? one[l] : other[l];
            sums[l] += least < cap ? least : cap;
        }
    }
    for (int l = 0; l < LANES; l++)
        total += sums[l];
    for (; d < size; d++) {
        double x = of_delta * delta[d] + of_own * own[d], one = x * low[d], other = x * high[d];
        double least = one < other ? one : other;
        total += least < cap ? least : cap;
    }
    return total;
}

/* What a leaf adds up to by its messages; factors of kept, gained, after, -lost, before. */
VERSIONS static double price_columns(
    const double *old, const double *new_, const double *delta, const double *after, const double *before,
    const double *factors, int64_t size)
{
    const double kept = factors[0], gained = factors[1], of_after = factors[2], lost = factors[3], of_before = factors[4];
    Lanes sums = {0};
    double total = 0.0;
    int64_t d = 0;
    for (; d + LANES <= size; d += LANES) {
        /* The difference is taken first: it may be far smaller than what it is a difference of. */
        sums += kept * ROW(delta + d) * (ROW(new_ + d) - ROW(old + d));
        sums += (gained * ROW(delta + d) + of_after * ROW(after + d)) * ROW(new_ + d);
        sums += (lost * ROW(delta + d) + of_before * ROW(before + d)) * ROW(old + d);
    }
    for (int l = 0; l < LANES; l++)
        total += sums[l];
    for (; d < size; d++) {
        total += kept * delta[d] * (new_[d] - old[d]);
        total += (gained * delta[d] + of_after * after[d]) * new_[d] + (lost * delta[d] + of_before * before[d]) * old[d];
    }
    return total;
}
