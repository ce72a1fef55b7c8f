from numpy import int8, int32, uint8, uint16
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray
from .layers import LayerArrays

def share_level(
    start: int,
    stop: int,
    suffixes: IntArray,
    node: NDArray[int32],
    parent: NDArray[int32],
    entry: IntArray,
    held: NDArray[uint8],
    above: LayerArrays | None,
    layer: LayerArrays,
    product_above: FloatArray,
    first_above: IntArray,
    held_above: NDArray[uint8],
    product: FloatArray,
    first: IntArray,
    bias_rows: IntArray,
    bias_causes: FloatArray,
    leaf_rows: IntArray,
    num_leaves: IntArray,
    path_entry: IntArray,
    path_held: NDArray[uint16],
    differs: NDArray[uint8],
    y_before: FloatArray,
    y_after: FloatArray,
    first_edge: int,
    stride: int,
    scratch: FloatArray,
    contributions: FloatArray,
    kinds: NDArray[int8],
    causes: FloatArray,
) -> None: ...
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
