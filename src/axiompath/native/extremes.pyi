from numpy import int32, uint8
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray
from .layers import LayerArrays

def reach_over(
    rows: IntArray,
    state: int,
    layer: LayerArrays,
    indptr: IntArray,
    entries: IntArray,
    differs: NDArray[uint8],
    below_low: FloatArray,
    below_high: FloatArray,
    place: NDArray[int32],
    least: FloatArray,
    most: FloatArray,
    low: FloatArray,
    high: FloatArray,
) -> None: ...
