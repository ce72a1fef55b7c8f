from numpy import int32, uint16
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray

def count_union(
    start: int, stop: int, indptrs: IntArray, indices: NDArray[int32], at: IntArray, sizes: IntArray
) -> None: ...
def fill_union(
    start: int,
    stop: int,
    indptrs: IntArray,
    indices: NDArray[int32],
    data: FloatArray,
    at: IntArray,
    starts: IntArray,
    columns: NDArray[int32],
    before: FloatArray,
    after: FloatArray,
    kept: FloatArray,
    marks: NDArray[uint16],
) -> None: ...
