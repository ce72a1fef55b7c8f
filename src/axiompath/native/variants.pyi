from typing import Any

from numpy import int32, uint64
from numpy.typing import NDArray

from ..arrays import IntArray

def number_views(
    words: NDArray[uint64],
    masks: NDArray[uint64],
    table: NDArray[int32],
    looked: IntArray,
    starts: IntArray,
    first: IntArray,
    inverse: NDArray[int32],
) -> None: ...

# Arguments in the order of the .pyx file, which checks each.
def add_products(*arguments: Any) -> None: ...

# Arguments in the order of the .pyx file, which checks each.
def add_attention(*arguments: Any) -> None: ...
