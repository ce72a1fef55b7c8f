/* Sums over blocks [rows, stride], LANES columns at a time; `stride` is a multiple of LANES.

Where it can, the compiler makes a version of each function for every width of vectors, and the first call picks one.
No version reorders a sum or fuses a product into it, so that all round alike. */

#include <stdint.h>

#define LANES 8
typedef double Lanes __attribute__((vector_size(8 * LANES), aligned(8), may_alias));
#define AT(place) (*(Lanes *)(place))
#define ROW(place) (*(const Lanes *)(place))

#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__SANITIZE_ADDRESS__)
#define VERSIONS __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define VERSIONS
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
