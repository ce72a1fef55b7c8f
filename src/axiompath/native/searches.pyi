from typing import Any

from numpy import int32, uint8, uint16
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray
from .layers import LayerArrays

class SearchLayer:
    def __init__(
        self,
        layer: LayerArrays,
        descents_indptr: IntArray,
        descents: IntArray,
        marks: NDArray[uint16],
        following: NDArray[uint16],
        delta_alone: NDArray[uint8],
        held: NDArray[uint8],
        held_below: NDArray[uint8],
        starts: NDArray[uint8],
        low: FloatArray | None,
        high: FloatArray | None,
        low_behind: FloatArray | None,
        high_behind: FloatArray | None,
        place: NDArray[int32] | None,
    ) -> None: ...

# Arguments in the order of the .pyx file, which checks each.
def search_range(*arguments: Any) -> None: ...
