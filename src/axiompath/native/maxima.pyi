from numpy import uint8
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray

def hold_shares(indptr: IntArray, values: FloatArray, there: NDArray[uint8], shares: FloatArray) -> None: ...
def line_shares(
    indptr: IntArray, low: FloatArray, high: FloatArray, there: NDArray[uint8], shares: FloatArray
) -> None: ...
