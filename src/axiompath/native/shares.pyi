from typing import Any

from numpy import uint8
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray
from .layers import LayerArrays

# Arguments in the order of the .pyx file, which checks each.
def share_level(*arguments: Any) -> None: ...
def sum_descents(
    start: int,
    stop: int,
    rows: IntArray,
    indptr: IntArray,
    descents: IntArray,
    layer: LayerArrays,
    lowest: bool,
    first_edge: int,
    differs: NDArray[uint8],
    place: IntArray,
    below: FloatArray,
    before: FloatArray,
    after: FloatArray,
    sums: FloatArray,
) -> None: ...
