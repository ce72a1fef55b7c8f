from numpy import int32, uint16
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray

class LayerArrays:
    def __init__(
        self,
        indptr: IntArray,
        indices: NDArray[int32],
        before: FloatArray,
        after: FloatArray,
        kept: FloatArray,
        kept_before: FloatArray,
        kept_after: FloatArray,
        marks: NDArray[uint16],
        channels: IntArray,
        weights: FloatArray,
        slopes: FloatArray | None,
        slope_rows: IntArray | None,
        bias: FloatArray | None,
        width: int,
        width_below: int,
        local: bool,
    ) -> None: ...
