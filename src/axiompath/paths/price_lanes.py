"""Sums over the columns of one row that a search takes, eight columns at a time; see `lanes`.

A search looks at single rows of a few columns, which compilers do not make vectors of: they cannot know that there are
eight. Each sum takes a multiple of eight columns; what is left over is the caller's.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from .lanes import CONTRACT, LANES, NUMBER, VECTOR, address_of

ZEROS = ir.Constant(VECTOR, [0.0] * LANES)


def _load(context: Any, builder: Any, array: tuple[Any, Any], at: Any) -> Any:
    return builder.load(address_of(context, builder, array, at, LANES), align=8)


def _all_lanes(builder: Any, number: Any) -> Any:
    first = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), number, ir.Constant(NUMBER, 0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(NUMBER, LANES), [0] * LANES))


def _times(builder: Any, one: Any, other: Any) -> Any:
    return builder.fmul(one, other, flags=CONTRACT)


def _plus(builder: Any, one: Any, other: Any) -> Any:
    return builder.fadd(one, other, flags=CONTRACT)


def _less(builder: Any, one: Any, other: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", one, other), one, other)


def _sum_of(builder: Any, vector: Any) -> Any:
    """Of all lanes, halves first."""
    while vector.type.count > 1:
        half = vector.type.count // 2
        low, high = (
            builder.shuffle_vector(vector, vector, ir.Constant(ir.VectorType(NUMBER, half), list(places)))
            for places in (range(half), range(half, 2 * half))
        )
        vector = builder.fadd(low, high)
    return builder.extract_element(vector, ir.Constant(NUMBER, 0))


def _sum_columns(builder: Any, size: Any, term: Any) -> Any:
    """The sum of term(d) over d = 0, 8, ... below size."""
    total = cgutils.alloca_once_value(builder, ZEROS)
    step = ir.Constant(size.type, LANES)
    with cgutils.for_range_slice(builder, ir.Constant(size.type, 0), size, step, inc=True) as (d, _):
        builder.store(_plus(builder, builder.load(total), term(d)), total)
    return _sum_of(builder, builder.load(total))


@intrinsic
def dot_columns(context, one, at, other, start, size):
    """Sum over d < size of one[at + d] * other[start + d]."""

    def generate(context, builder, signature, args):
        def term(d):
            first = _load(context, builder, (one, args[0]), builder.add(args[1], d))
            second = _load(context, builder, (other, args[2]), builder.add(args[3], d))
            return _times(builder, first, second)

        return _sum_columns(builder, args[4], term)

    return types.float64(one, types.intp, other, types.intp, types.intp), generate


@intrinsic
def least_columns(context, low, high, at, held, places, factors, size, cap):
    """Sum over d < size of the least of x * low[at + d], x * high[at + d] and cap.

    x is factors[0] * held[places[0] + d] + factors[1] * held[places[1] + d].
    """

    def generate(context, builder, signature, args):
        lows, highs, values = (low, args[0]), (high, args[1]), (held, args[3])
        of = [_all_lanes(builder, builder.extract_value(args[5], i)) for i in range(2)]
        limit = _all_lanes(builder, args[7])

        def term(d):
            parts = [
                _load(context, builder, values, builder.add(builder.extract_value(args[4], i), d)) for i in range(2)
            ]
            x = _plus(builder, _times(builder, of[0], parts[0]), _times(builder, of[1], parts[1]))
            place = builder.add(args[2], d)
            ends = [_times(builder, x, _load(context, builder, array, place)) for array in (lows, highs)]
            return _less(builder, _less(builder, *ends), limit)

        return _sum_columns(builder, args[6], term)

    pair, two = types.UniTuple(types.intp, 2), types.UniTuple(types.float64, 2)
    return types.float64(low, high, types.intp, held, pair, two, types.intp, types.float64), generate


@intrinsic
def price_columns(context, before, after, at, held, places, factors, size):
    """Sum over d < size of what a leaf's message adds up to: with q, r, s = held at the three places + d,

    kept * q * (a - b) + (gained * q + now * r) * a + (lost * q + once * s) * b

    where a, b = after, before at `at` + d, and factors are (kept, gained, now, lost, once).
    """

    def generate(context, builder, signature, args):
        kept, gained, now, lost, once = (_all_lanes(builder, builder.extract_value(args[5], i)) for i in range(5))

        def term(d):
            q, r, s = (
                _load(context, builder, (held, args[3]), builder.add(builder.extract_value(args[4], i), d))
                for i in range(3)
            )
            place = builder.add(args[2], d)
            b, a = (_load(context, builder, array, place) for array in ((before, args[0]), (after, args[1])))
            # The difference is taken first: it may be far smaller than what it is a difference of.
            moved = _times(builder, _times(builder, kept, q), builder.fsub(a, b))
            of_after = _plus(builder, _times(builder, gained, q), _times(builder, now, r))
            of_before = _plus(builder, _times(builder, lost, q), _times(builder, once, s))
            rest = _plus(builder, _times(builder, of_after, a), _times(builder, of_before, b))
            return _plus(builder, moved, rest)

        return _sum_columns(builder, args[6], term)

    three, five = types.UniTuple(types.intp, 3), types.UniTuple(types.float64, 5)
    return types.float64(before, after, types.intp, held, three, five, types.intp), generate
