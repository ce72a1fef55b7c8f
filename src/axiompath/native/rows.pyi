from numpy import int32, uint8
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray

def place_in_rows(rows: IntArray, free: IntArray, places: IntArray) -> None: ...
def order_rows(indptr: IntArray, columns: IntArray, order: IntArray) -> None: ...
def compare_rows(
    starts: IntArray,
    sizes: IntArray,
    columns: IntArray,
    values: FloatArray,
    other_columns: IntArray,
    other_values: FloatArray,
    differ: NDArray[uint8],
) -> None: ...
def find_entries(
    indptr: IntArray, indices: NDArray[int32], rows: IntArray, columns: IntArray, found: IntArray
) -> None: ...
def multiply_each(rows: FloatArray, weight: FloatArray, product: FloatArray) -> None: ...
