"""The table of a network's layers that a compiled search goes by: a row a layer, of addresses and sizes.

One loop goes through layers whose arrays have different shapes, so it is handed their addresses (see `search`, which
keeps the arrays alive) and looks at them by `view`. References to a view are not counted; counting those of an array
took longer than the search.
"""

import ctypes

import numba
import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

# Fields of a layer's row in the table: addresses and sizes.
(
    INDPTR, INDICES, BEFORE, AFTER, KEPT, KEPT_AFTER, KEPT_BEFORE, MARKS, DESCENTS_INDPTR, DESCENTS, FOLLOWING,
    DELTA_ALONE, HELD, HELD_BELOW, STARTS, SLOPES, SLOPE_PLACE, BIAS, INPUTS, OUTPUTS, WEIGHTS, MAPS, LOW, HIGH,
    LOW_BEHIND, HIGH_BEHIND, PLACE, MESSAGES_BEFORE, MESSAGES_AFTER, NUM_NODES, NUM_ENTRIES, NUM_RULES, NUM_DESCENTS,
    NUM_SETS, NUM_BELOW, NUM_OF_MARKS, NUM_SLOPES, WIDTH, NUM_CHANNELS, COLUMNS, COLUMNS_BEHIND, NUM_WEIGHTS,
    NUM_EXTREMES, NUM_EXTREME_NODES, WIDTH_BELOW, NUM_SENDERS, LOCAL, NUM_FIELDS,
) = range(48)  # fmt: skip


@intrinsic
def _pointer(context, address):
    """An address as numba's own kind of pointer."""

    def lower(_, builder, __, arguments):
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), lower


def view(address, shape, dtype):
    """The array that lies there."""
    size = int(np.prod(shape))
    if size == 0:
        return np.zeros(shape, dtype)
    held = (ctypes.c_char * (size * np.dtype(dtype).itemsize)).from_address(int(address))
    return np.frombuffer(held, dtype).reshape(shape)


@overload(view)
def _compiled_view(address, shape, dtype):
    return lambda address, shape, dtype: numba.carray(_pointer(address), shape, dtype)
