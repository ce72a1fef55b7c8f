"""Eight numbers that compiled loops hold in registers, one a class: read, added up, written.

LLVM makes vectors of loops over many columns by itself, but unrolls loops over a few classes into single numbers. So
the vectors are written down. They are read from and written to arrays (contiguous, float64) by flat position; a process
in which numba checks every index checks these, too.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, models, register_model

from . import plain_lanes
from .plain_lanes import LANES

CONTRACT = ("contract",)  # a product and a sum may be rounded once
REAL, NUMBER = ir.DoubleType(), ir.IntType(32)
VECTOR = ir.VectorType(REAL, LANES)


class Lanes(types.Type):  # type: ignore[misc]
    """What the compiler calls them."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


EIGHT = Lanes()


@register_model(Lanes)
class _InRegisters(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, VECTOR)


def _in_registers(function: Any) -> Any:
    """What compiled loops call; where Python runs them, it calls the function of the same name of `plain_lanes`."""
    found = intrinsic(function)
    found.by_python = getattr(plain_lanes, function.__name__)
    return found


def whole_lanes(number: int) -> int:
    """How many numbers there are room for in as many lanes as this number of them needs."""
    return -(-number // LANES) * LANES


def address_of(context: Any, builder: Any, array: tuple[Any, Any], at: Any, width: int) -> Any:
    """Pointer to `width` numbers of an array (its type, its value) from a flat position on."""
    assert (array[0].layout, array[0].dtype) == ("C", types.float64), f"expected contiguous float64 (got {array[0]})"
    held = context.make_array(array[0])(context, builder, array[1])
    if context.enable_boundscheck:
        cgutils.do_boundscheck(context, builder, builder.add(at, ir.Constant(at.type, width - 1)), held.nitems)
    kind = ir.VectorType(REAL, width)
    return builder.bitcast(builder.gep(held.data, [at], inbounds=True), kind.as_pointer())


def _resized(builder: Any, vector: Any, width: int) -> Any:
    """The first lanes of a vector, or the vector and zeros behind it."""
    size = vector.type.count
    mask = ir.Constant(ir.VectorType(NUMBER, width), [min(lane, size) for lane in range(width)])
    return builder.shuffle_vector(vector, ir.Constant(vector.type, [0.0] * size), mask)


def _plus_scaled(builder: Any, total: Any, lanes: Any, factor: Any) -> Any:
    first = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), factor, ir.Constant(NUMBER, 0))
    every = builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(NUMBER, LANES), [0] * LANES))
    return builder.fadd(total, builder.fmul(every, lanes, flags=CONTRACT), flags=CONTRACT)


def _by_number(builder: Any, number: Any, act: Any) -> None:
    """Run act(width) for width = min(number, LANES); number is at least 1."""
    end, whole = builder.append_basic_block(), builder.append_basic_block()
    choice = builder.switch(number, whole)
    for width in range(1, LANES + 1):
        block = whole
        if width < LANES:
            block = builder.append_basic_block()
            choice.add_case(ir.Constant(number.type, width), block)
        builder.position_at_end(block)
        act(width)
        builder.branch(end)
    builder.position_at_end(end)


@_in_registers
def zeros(context):
    """No number yet."""
    return EIGHT(), lambda context, builder, signature, args: ir.Constant(VECTOR, [0.0] * LANES)


@_in_registers
def fetch(context, array, at, number):
    """The `number` lanes from a position on, or eight where there are more; those behind them may hold anything."""

    def generate(context, builder, signature, args):
        found = cgutils.alloca_once(builder, VECTOR)
        size = context.make_array(array)(context, builder, args[0]).nitems
        room = builder.icmp_signed("<=", builder.add(args[1], ir.Constant(args[1].type, LANES)), size)

        def act(width):
            part = builder.load(address_of(context, builder, (array, args[0]), args[1], width), align=8)
            builder.store(_resized(builder, part, LANES), found)

        with builder.if_else(room, likely=True) as (inside, at_the_end):
            with inside:
                act(LANES)
            with at_the_end:
                _by_number(builder, args[2], act)
        return builder.load(found)

    return EIGHT(array, types.intp, types.intp), generate


@_in_registers
def fetch_all(context, array, at):
    """Eight lanes from a position on, all of which are there."""

    def generate(context, builder, signature, args):
        return builder.load(address_of(context, builder, (array, args[0]), args[1], LANES), align=8)

    return EIGHT(array, types.intp), generate


@_in_registers
def put_all(context, array, at, lanes):
    """Write eight lanes to a position."""

    def generate(context, builder, signature, args):
        builder.store(args[2], address_of(context, builder, (array, args[0]), args[1], LANES), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, EIGHT), generate


@_in_registers
def expect(context, array, at, size):
    """Begin to bring `size` numbers from a position on into the cache."""

    def generate(context, builder, signature, args):
        held = context.make_array(array)(context, builder, args[0])
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer(), NUMBER, NUMBER, NUMBER])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        to_read, keep, data = (ir.Constant(NUMBER, value) for value in (0, 3, 1))
        step = ir.Constant(args[2].type, LANES)
        with cgutils.for_range_slice(builder, ir.Constant(args[2].type, 0), args[2], step, inc=True) as (d, _):
            place = builder.gep(held.data, [builder.add(args[1], d)])
            builder.call(prefetch, [builder.bitcast(place, ir.IntType(8).as_pointer()), to_read, keep, data])
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp), generate


@_in_registers
def put(context, array, at, lanes, number):
    """Write the first `number` lanes to a position, or all where there are more."""

    def generate(context, builder, signature, args):
        def act(width):
            place = address_of(context, builder, (array, args[0]), args[1], width)
            builder.store(_resized(builder, args[2], width), place, align=8)

        _by_number(builder, args[3], act)
        return context.get_dummy_value()

    return types.void(array, types.intp, EIGHT, types.intp), generate


@_in_registers
def plus_scaled(context, total, lanes, factor):
    """total + factor * lanes."""
    return EIGHT(EIGHT, EIGHT, types.float64), lambda context, builder, signature, args: _plus_scaled(builder, *args)


def _sums(builder: Any, number: int) -> list[Any]:
    return [cgutils.alloca_once_value(builder, ir.Constant(VECTOR, [0.0] * LANES)) for _ in range(number)]


def _add_row(context: Any, builder: Any, matrix: tuple[Any, Any], at: Any, factor: Any, into: Any) -> None:
    """Add factor times the lanes of the matrix at a position to a sum."""
    lanes = builder.load(address_of(context, builder, matrix, at, LANES), align=8)
    builder.store(_plus_scaled(builder, builder.load(into), lanes, factor), into)


def _number(context: Any, builder: Any, vector: tuple[Any, Any], at: Any) -> Any:
    found = builder.load(address_of(context, builder, vector, at, 1), align=8)
    return builder.extract_element(found, ir.Constant(NUMBER, 0))


@_in_registers
def product(context, matrix, first, stride, vector, start, size):
    """Sum over d < size: vector[start + d] * the eight lanes of the matrix from first + d * stride on.

    Even and odd d are summed apart, because one sum would wait for itself. This is no compiled function of its own,
    because that would count references to both arrays at every call.
    """

    def generate(context, builder, signature, args):
        rows, row, step, column, start_at, length = (matrix, args[0]), args[1], args[2], (vector, args[3]), *args[4:]
        one, (even_sum, odd_sum) = ir.Constant(length.type, 1), _sums(builder, 2)

        def add(d, into):
            factor = _number(context, builder, column, builder.add(start_at, d))
            _add_row(context, builder, rows, builder.add(row, builder.mul(d, step)), factor, into)

        with cgutils.for_range(builder, builder.ashr(length, one)) as loop:
            even = builder.shl(loop.index, one)
            add(even, even_sum)
            add(builder.or_(even, one), odd_sum)
        with builder.if_then(builder.trunc(length, ir.IntType(1))):
            add(builder.sub(length, one), even_sum)
        return builder.fadd(builder.load(even_sum), builder.load(odd_sum))

    return EIGHT(matrix, types.intp, types.intp, vector, types.intp, types.intp), generate


@_in_registers
def two_products(context, matrix, places, stride, vector, start, size, factors):
    """factors[0] * the product from places[0] on + factors[1] * that from places[1] on: the vector is read once."""

    def generate(context, builder, signature, args):
        rows, step, column, start_at, length = (matrix, args[0]), args[2], (vector, args[3]), args[4], args[5]
        sums = _sums(builder, 2)
        with cgutils.for_range(builder, length) as loop:
            factor = _number(context, builder, column, builder.add(start_at, loop.index))
            for i, into in enumerate(sums):
                at = builder.add(builder.extract_value(args[1], i), builder.mul(loop.index, step))
                _add_row(context, builder, rows, at, factor, into)
        total = ir.Constant(VECTOR, [0.0] * LANES)
        for i, into in enumerate(sums):
            total = _plus_scaled(builder, total, builder.load(into), builder.extract_value(args[6], i))
        return total

    pair = types.UniTuple(types.intp, 2), types.UniTuple(types.float64, 2)
    return EIGHT(matrix, pair[0], types.intp, vector, types.intp, types.intp, pair[1]), generate


def _add_to_four(context: Any, builder: Any, rows: Any, at: Any, factors: list[Any], sums: list[Any]) -> None:
    """Add four factors times the lanes of a matrix at a position to four sums."""
    lanes = builder.load(address_of(context, builder, rows, at, LANES), align=8)
    for factor, into in zip(factors, sums, strict=True):
        builder.store(_plus_scaled(builder, builder.load(into), lanes, factor), into)


@_in_registers
def four_products(context, matrix, first, stride, vector, starts, size):
    """`product` from four starts, to the last bit: lanes are read once for all, and no sum waits for another."""

    def generate(context, builder, signature, args):
        rows, row, step, column, length = (matrix, args[0]), args[1], args[2], (vector, args[3]), args[5]
        one, evens, odds = ir.Constant(length.type, 1), _sums(builder, 4), _sums(builder, 4)

        def add(d, sums):
            starts_at = [builder.add(builder.extract_value(args[4], i), d) for i in range(4)]
            factors = [_number(context, builder, column, start) for start in starts_at]
            _add_to_four(context, builder, rows, builder.add(row, builder.mul(d, step)), factors, sums)

        with cgutils.for_range(builder, builder.ashr(length, one)) as loop:
            even = builder.shl(loop.index, one)
            add(even, evens)
            add(builder.or_(even, one), odds)
        with builder.if_then(builder.trunc(length, ir.IntType(1))):
            add(builder.sub(length, one), evens)
        found = [builder.fadd(builder.load(even), builder.load(odd)) for even, odd in zip(evens, odds, strict=True)]
        return context.make_tuple(builder, signature.return_type, found)

    places = types.UniTuple(types.intp, 4)
    return types.UniTuple(EIGHT, 4)(matrix, types.intp, types.intp, vector, places, types.intp), generate


@_in_registers
def four_pairs(context, matrix, places, stride, vector, starts, size, factors, others):
    """`two_products` from four starts, to the last bit, with a factor each for the two products of each start."""

    def generate(context, builder, signature, args):
        rows, step, column, length = (matrix, args[0]), args[2], (vector, args[3]), args[5]
        sums = _sums(builder, 4), _sums(builder, 4)
        with cgutils.for_range(builder, length) as loop:
            starts_at = [builder.add(builder.extract_value(args[4], i), loop.index) for i in range(4)]
            numbers = [_number(context, builder, column, start) for start in starts_at]
            for i, into in enumerate(sums):
                at = builder.add(builder.extract_value(args[1], i), builder.mul(loop.index, step))
                _add_to_four(context, builder, rows, at, numbers, into)
        found = []
        for n in range(4):
            total = ir.Constant(VECTOR, [0.0] * LANES)
            for of_this, into in zip(args[6:], sums, strict=True):
                total = _plus_scaled(builder, total, builder.load(into[n]), builder.extract_value(of_this, n))
            found.append(total)
        return context.make_tuple(builder, signature.return_type, found)

    four, pair, reals = types.UniTuple(types.intp, 4), types.UniTuple(types.intp, 2), types.UniTuple(types.float64, 4)
    return types.UniTuple(EIGHT, 4)(matrix, pair, types.intp, vector, four, types.intp, reals, reals), generate
