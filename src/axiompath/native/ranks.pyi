from numpy import uint16
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray
from .layers import LayerArrays

def offer_leaves(
    layer: LayerArrays,
    marks: NDArray[uint16],
    following: NDArray[uint16],
    y: FloatArray,
    bounds: FloatArray,
    node: IntArray,
    sets: NDArray[uint16],
    q: FloatArray,
    threshold: float,
    scores: FloatArray,
    suffix: IntArray,
    leaf: IntArray,
) -> None: ...
def best_continuations(
    counts: IntArray,
    entry_scores: FloatArray,
    place: IntArray,
    below: FloatArray,
    scores: FloatArray,
    child: IntArray,
    rank: IntArray,
) -> None: ...
