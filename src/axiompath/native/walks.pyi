from numpy import int32, uint8, uint16
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray

def count_layer(
    start: int,
    stop: int,
    indptr: IntArray,
    indices: NDArray[int32],
    marks: NDArray[uint16],
    following: NDArray[uint16],
    below: FloatArray,
    above: FloatArray,
) -> None: ...
def count_children(
    start: int,
    stop: int,
    indptr: IntArray,
    descents_indptr: IntArray,
    descents: IntArray,
    marks: NDArray[uint16],
    following: NDArray[uint16],
    delta_alone: NDArray[uint8],
    node: NDArray[int32],
    sets: NDArray[uint16],
    num_children: IntArray,
) -> None: ...
def fill_children(
    start: int,
    stop: int,
    indptr: IntArray,
    descents_indptr: IntArray,
    descents: IntArray,
    marks: NDArray[uint16],
    following: NDArray[uint16],
    delta_alone: NDArray[uint8],
    node: NDArray[int32],
    sets: NDArray[uint16],
    rows: IntArray,
    entry: IntArray,
    sets_below: NDArray[uint16],
) -> None: ...
def fill_leaves(
    start: int,
    stop: int,
    num_leaves: IntArray,
    rows: IntArray,
    trail: NDArray[int32],
    indices: NDArray[int32],
    entry: IntArray,
    paths: IntArray,
) -> None: ...
