from numpy import uint8
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray

def rank(
    first: int,
    last: int,
    offsets: IntArray,
    weights: FloatArray,
    prices: FloatArray,
    which: IntArray,
    starts: IntArray,
    stops: IntArray,
    members: IntArray,
) -> None: ...
def improve_sets(
    first: int,
    last: int,
    kind: int,
    sign: float,
    contributions: FloatArray,
    offsets: IntArray,
    origin: FloatArray,
    target: FloatArray,
    scales: FloatArray,
    goals: FloatArray,
    facts: FloatArray,
    rows: FloatArray,
    reach: FloatArray,
    weights: FloatArray,
    prices: FloatArray,
    which: IntArray,
    starts: IntArray,
    stops: IntArray,
    members: IntArray,
    bounds: FloatArray,
    tolerance: float,
    by_size: IntArray,
    proved: NDArray[uint8],
) -> None: ...
