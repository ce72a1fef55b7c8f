"""The compiled loops of training: float64 arithmetic that gives the same bits on every processor.

torch's and numpy's products, exponentials and random normals are written anew for each width of vector registers and
round differently there; a training of hundreds of steps makes of a last bit another network. Here are only the
operations that IEEE 754 rounds in one way (+, -, *, /, comparison, scaling by a power of two), in the order written:
numba neither reorders a sum nor fuses a product into it unless it is asked to.
"""

import math

import numba

compiled = numba.njit(nogil=True, cache=True)

LOG2_E = 1.4426950408889634
LN2_HIGH = 0.6931471803691238  # its last 21 bits are 0, so that a whole number of them is exact
LN2_LOW = 1.9082149292705877e-10


@compiled
def multiply_sparse(start, stop, matrix, dense, out):
    """out = matrix @ dense for a range of rows, each summed from its first entry to its last."""
    width = dense.shape[1]
    out[start:stop] = 0.0
    for i in range(start, stop):
        row = out[i]
        for e in range(matrix.indptr[i], matrix.indptr[i + 1]):
            value = matrix.values[e]
            sent = dense[matrix.indices[e]]
            for j in range(width):
                row[j] += value * sent[j]


@compiled
def take_largest(start, stop, matrix, dense, out, holders):
    """out[i, j] = the largest of column j among the entries of row i, and who holds it: the first of equals."""
    for i in range(start, stop):
        first, last = matrix.indptr[i], matrix.indptr[i + 1]
        for j in range(dense.shape[1]):
            out[i, j], holders[i, j] = 0.0, -1
            for e in range(first, last):
                value = dense[matrix.indices[e], j]
                if e == first or value > out[i, j]:
                    out[i, j], holders[i, j] = value, matrix.indices[e]


@compiled
def give_to_holders(above, holders, out):
    """out[holders[i, j], j] += above[i, j], from the first row to the last."""
    out[:] = 0.0
    for i in range(above.shape[0]):
        for j in range(above.shape[1]):
            if holders[i, j] >= 0:
                out[holders[i, j], j] += above[i, j]


@compiled
def multiply_dense(start, stop, left, right, out):
    """out = left @ right for a range of rows."""
    width = right.shape[1]
    out[start:stop] = 0.0
    for i in range(start, stop):
        row = out[i]
        for k in range(left.shape[1]):
            value = left[i, k]
            if value != 0.0:  # half of them, after ReLU and dropout
                for j in range(width):
                    row[j] += value * right[k, j]


@compiled
def multiply_transposed(left, right, out):
    """out = left.T @ right, summed from the first row to the last."""
    width = right.shape[1]
    out[:] = 0.0
    for i in range(left.shape[0]):
        for k in range(left.shape[1]):
            value = left[i, k]
            if value != 0.0:
                for j in range(width):
                    out[k, j] += value * right[i, j]


@compiled
def exponential(x):
    """e^x for x <= 0, to a few units in the last place: 2^k e^r with |r| <= ln 2 / 2, by Taylor's series."""
    if x < -700.0:
        return 0.0
    k = math.floor(x * LOG2_E + 0.5)
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    total = 1.0
    for n in range(14, 0, -1):
        total = 1.0 + total * r / n
    return math.ldexp(total, int(k))


@compiled
def cross_entropy_gradient(logits, nodes, labels, out):
    """The gradient by the logits of the mean cross-entropy at `nodes`: (softmax - label) / number of nodes, else 0."""
    out[:] = 0.0
    for v in nodes:
        largest = logits[v, 0]
        for c in range(logits.shape[1]):
            largest = max(largest, logits[v, c])
        total = 0.0
        for c in range(logits.shape[1]):
            out[v, c] = exponential(logits[v, c] - largest)
            total += out[v, c]
        for c in range(logits.shape[1]):
            out[v, c] = (out[v, c] / total - (c == labels[v])) / len(nodes)


@compiled
def sum_of_squares(values):
    """From the first to the last."""
    total = 0.0
    for value in values:
        total += value * value
    return total
