"""models + snapshots -> Steps: each pair of consecutive snapshots, opened when its turn comes and let go afterwards."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from ..errors import InputError
from ..explainer import Explainer
from ..graphs.dated import slide


class Step(NamedTuple):
    """One step of a sequence."""

    number: int  # from 1
    before: str  # names of the snapshots
    after: str
    explainer: Explainer


LinksOf = Callable[[int, Any, Any], Any]  # (number of the step, before, after) -> the pairs that are asked for


def steps(
    models: Any,
    snapshots: Sequence[Any],
    *,
    names: Sequence[str] | None = None,
    only: Collection[int] | None = None,
    links_of: LinksOf | None = None,
    window: int | None = None,
    **options: Any,
) -> Iterator[Step]:
    """Open the steps in order, those whose numbers are in `only`; `options` are those of Explainer.

    `models` is one model or a list with one per snapshot. `snapshots` may read each graph when it is asked for. Links
    are the same for all steps, or `links_of` gives those of each. A model that looks back over a `window` of so many
    snapshots has as many fewer steps, each from one window to the next.
    """
    each = model_of_each(models, len(snapshots))
    called = names_of_snapshots(names, len(snapshots))
    if window is not None:
        snapshots, each, called = slide(snapshots, window, called), each[window - 1 :], called[window - 1 :]
    wanted = set(range(1, len(snapshots)) if only is None else only)
    before: Any = None
    for number in range(1, len(snapshots)):
        if number not in wanted:
            before = None
            continue
        before = snapshots[number - 1] if before is None else before
        after = snapshots[number]
        given = options if links_of is None else {**options, "links": links_of(number, before, after)}
        explainer = Explainer(each[number], before, after, model_before=other_model(each, number), **given)
        yield Step(number, called[number - 1], called[number], explainer)
        before = after


def names_of_snapshots(names: Sequence[str] | None, num_snapshots: int) -> tuple[str, ...]:
    """The names that are given, else numbers."""
    found = tuple(str(name) for name in names) if names else tuple(f"snapshot {i}" for i in range(num_snapshots))
    if len(found) != num_snapshots:
        raise InputError(
            f"Expected a name for each of the {num_snapshots} snapshots (got {len(found)} names); "
            "leave `snapshot_names` out to have them numbered."
        )
    return found


def model_of_each(models: Any, num_snapshots: int) -> list[Any]:
    """The model of each snapshot: one for all of them, or a list with one for each."""
    if not isinstance(models, (list, tuple)):
        return [models] * num_snapshots
    if len(models) != num_snapshots:
        raise InputError(
            f"Expected a model for each of the {num_snapshots} snapshots, or one for all of them (got {len(models)})."
        )
    return list(models)


def other_model(models: Sequence[Any], number: int) -> Any:
    """The model before a step, if it is another object than the one after it."""
    before, after = models[number - 1 : number + 1]
    return None if before is after else before


def is_one_model(models: Sequence[Any]) -> bool:
    """Whether all snapshots have the same model."""
    return all(after is before for before, after in pairwise(models))
