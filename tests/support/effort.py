"""What `make test` leaves to `make test-all`, for time: two thirds of the examples drawn, and some of what is alike."""

import os

import pytest

ALL = bool(os.environ.get("AXIOMPATH_ALL_EXAMPLES"))
LEAST = 10


def examples(number):
    """So many, or a third of them."""
    return number if ALL else max(LEAST, number // 3)


def every_other(values):
    """Values of a parameter, of which every second is for `make test-all` alone."""
    return [pytest.param(value, marks=pytest.mark.slow) if i % 2 else value for i, value in enumerate(values)]
