"""How much is tried, by AXIOMPATH_EXAMPLES: `all` (make test-all), a third of the examples (make test), or `few`.

With `few` (make quick) a parametrised test runs its first case only, and tests marked `long` are left out.
"""

import os

import pytest

WANTED = os.environ.get("AXIOMPATH_EXAMPLES", "")
ALL, FEW = WANTED == "all", WANTED == "few"
LEAST = 10


def examples(number):
    """How many examples hypothesis draws where `number` are all."""
    return number if ALL else LEAST if FEW else max(LEAST, number // 3)


def every_other(values):
    """Values of a parameter, of which every second is left to `make test-all`."""
    return [pytest.param(value, marks=pytest.mark.slow) if i % 2 else value for i, value in enumerate(values)]


def pick_few(items):
    """Of the tests of `make quick`: those that are not long, each with its first case."""
    picked, seen = [], set()
    for item in items:
        test = item.nodeid.partition("[")[0]
        if test not in seen and item.get_closest_marker("long") is None:
            picked.append(item)
        seen.add(test)
    return picked
