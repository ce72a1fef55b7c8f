"""How many examples tests of the mathematics draw: a third in `make test`, for time, and all in `make test-all`."""

import os

LEAST = 10


def examples(number):
    """So many, or a third of them."""
    return number if os.environ.get("AXIOMPATH_ALL_EXAMPLES") else max(LEAST, number // 3)
