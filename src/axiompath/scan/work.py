"""Workload + part -> the part's file: the one thing that workers do, whatever engine runs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from ..arrays import IntArray
from ..change.comparison import Change
from ..errors import TooLarge
from ..explain.answer import explain_rows
from ..explain.explanation import Caption, Explanation
from ..explain.question import Question
from ..explain.walks import Walks
from ..graphs.labels import label_targets
from ..graphs.places import Target
from ..graphs.snapshot import Snapshot
from ..network.layers import ForwardPass
from ..paths.search import Known, adopt
from .parts import Failure, notes_of, write_part

PROCESS_BYTES = 150e6  # of a worker that has loaded the program


class Load:
    """What workers are given: parts, each with its file; what a part takes, and how it is done."""

    idle_bytes = PROCESS_BYTES  # of a worker that has nothing to do
    remedy = "free some memory"  # where workers keep dying

    def need_of(self, part: int) -> float:
        """Bytes that a worker takes at most for a part, the worker itself included."""
        raise NotImplementedError

    def do(self, kind: str, number: int) -> Any:
        """A `part`, whose number is returned when it is written; or less, by whatever kind."""
        raise NotImplementedError

    def rescue(self, part: int, single: Callable[[int], Any]) -> None:
        """What is done about a part at which workers keep dying; `single` asks one for a `target`, None if it dies."""
        del single
        raise TooLarge(
            f"Expected workers to survive part {part} (several died at it, usually for lack of memory); {self.remedy}."
        )


@dataclass(frozen=True, eq=False)
class Workload(Load):
    """What a worker needs to explain any part; the arrays are shared between workers, never copied."""

    change: Change
    question: Question
    walks: Walks  # of the targets
    indptr: IntArray  # [num_parts + 1]: places of the targets of each part
    digest: str
    folder: Path
    caption: Caption
    known: Known | None = None  # for targets that are searched

    def file_of(self, part: int) -> Path:
        """Where a part is written."""
        return self.folder / f"part-{part:06d}.parquet"

    def notes_of(self, part: int) -> dict[str, Any]:
        """What a part says of itself."""
        return notes_of(self.digest, len(self.places_of(part)), self.caption.origin, self.change.task)

    def need_of(self, part: int) -> float:
        """Bytes that a worker takes at most for a part: its largest target, or a batch; and the worker itself."""
        sizes = self.walks.sizes[self.places_of(part)]
        return PROCESS_BYTES + float(max(sizes.max(), min(sizes.sum(), self.walks.batch_bytes)))

    def do(self, kind: str, number: int) -> Explanation | Failure | int:
        """A `part`, whose number is returned when it is written, or one `target`."""
        if kind == "target":
            return explain_alone(self, number)
        run_part(self, number)
        return number

    def rescue(self, part: int, single: Callable[[int], Any]) -> None:
        """Each target by itself: one at which workers die is recorded, the others are explained."""

        def explain(place: int) -> Explanation | Failure:
            found: Explanation | Failure | None = single(place)
            return self.lost(place) if found is None else found

        write_part(self.file_of(part), map(explain, self.places_of(part).tolist()), self.notes_of(part))

    def places_of(self, part: int) -> IntArray:
        """Places of a part's targets in the arrays."""
        return np.arange(self.indptr[part], self.indptr[part + 1])

    def target_of(self, place: int) -> Target:
        """The user's number of a target."""
        return self.change.target(int(self.walks.rows[place]))

    def failure(self, place: int, problem: str) -> Failure:
        """What is written of a target that cannot be explained."""
        target = self.target_of(place)
        (name,) = label_targets(np.array([target]), self.caption.node_names if not self.change.of_graphs else {})
        return Failure(target, name, problem)

    def lost(self, place: int) -> Failure:
        """What is written of a target at which every worker dies."""
        return self.failure(place, "the process that explained it died, also when it was tried by itself")


@cache
def _libraries() -> ThreadpoolController:
    """Libraries with threads of their own; looking for them takes as long as some targets do."""
    return ThreadpoolController()


def run_part(load: Workload, part: int) -> None:
    """Explain the targets of a part and write them; a target that fails is written with its reason."""
    places = load.places_of(part)
    # The rounding of a product may depend on how many threads share it.
    with _libraries().limit(limits=1):
        found = (item for batch in load.walks.batches(places) for item in _explain_batch(load, batch))
        write_part(load.file_of(part), found, load.notes_of(part))


def explain_alone(load: Workload, place: int) -> Explanation | Failure:
    """One target, by itself."""
    with _libraries().limit(limits=1):
        (found,) = _explain_batch(load, np.array([place]))
    return found


def _explain_batch(load: Workload, places: IntArray) -> list[Explanation | Failure]:
    if load.known is not None:
        adopt(load.change, load.known)
    try:
        return list(explain_rows(load.change, load.walks.take(places), load.question, load.caption))
    except Exception as error:
        if len(places) == 1:
            reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            return [load.failure(int(places[0]), reason)]
        # Whoever is to blame, the others are explained.
        return [found for place in places for found in _explain_batch(load, np.array([place]))]


def share_change(change: Change) -> Change:
    """The change with everything in it that workers read, computed once, and without what none of them reads."""
    lowest = change.lowest_hop
    slim = replace(
        change,
        before=_without_graph(change.before),
        after=_without_graph(change.after),
        before_pass=_without_features(change.before_pass, lowest),
        after_pass=_without_features(change.after_pass, lowest),
    )
    slim = replace(slim, earlier=tuple(map(share_change, change.earlier)))
    # Where `cached_property` looks.
    slim.__dict__.update(
        messages=change.messages, rates=change.rates, steps=change.steps, merged_steps=change.merged_steps,
        after_steps=change.after_steps,
    )  # fmt: skip
    if change.network.takes_edges:
        slim.__dict__["ends_of_edges"] = change.ends_of_edges
    return slim


def _without_graph(snapshot: Snapshot) -> Snapshot:
    nothing = np.zeros((snapshot.num_nodes, 0)), np.zeros((2, 0), dtype=np.int64)
    return replace(snapshot, x=nothing[0], edges=nothing[1], edge_weight=None)


def _without_features(forward: ForwardPass, lowest: int) -> ForwardPass:
    """What layers above the lowest hop received; below it, a leaf's message stands for everything."""
    return replace(forward, x=np.zeros((0, 0)), z=tuple(z if t >= lowest else z[:0] for t, z in enumerate(forward.z)))
