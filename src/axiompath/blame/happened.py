"""SubsetEngine + Root -> Happened: what did it, and the least to undo, within about a second."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from ..explain.explanation import Caption
from ..storage.notebook import show
from .blame import Blame, blame_target
from .cost import TooDear
from .engine import SubsetEngine
from .root import Root
from .shapley import Effort
from .undo import Undo, undo_target

MOST_CHANGES = 300  # changes that reach a target; for more, not even a rough estimate is made in a second
EXACT_SUBSETS = 1 << 12  # all of which are tried
ORDERED_EVALUATIONS = 8192  # along random orders, where there are more


@dataclass(frozen=True, eq=False)
class Happened:
    """Which changes moved one prediction, and the fewest to undo if its class changed."""

    blame: Blame | None  # None if more changes reach it than a second allows
    undo: Undo | None  # None where the class did not change
    num_in_sight: int

    def summary(self, limit: int = 5) -> str:
        """What happened, which changes did it, the least to undo, and how certain that is."""
        first, *others = self.describe_lines(limit)
        return "\n".join([f"{self.headline}. {first}" if self.headline else first, *others])

    @property
    def headline(self) -> str:
        """What happened to the prediction, without a full stop; empty if there is neither blame nor undo."""
        record = self.undo if self.blame is None else self.blame
        return "" if record is None else record.headline

    def describe_lines(self, limit: int = 5) -> list[str]:
        """Everything but the headline, in lines."""
        undo = [] if self.undo is None else [self.undo.sentence]
        if self.blame is None:
            return [self.too_many, *undo]
        return [*self.blame.describe_changes(limit), *undo, *self.blame.describe_certainty()]

    @property
    def too_many(self) -> str:
        """The sentence that replaces blame."""
        return (
            f"{self.num_in_sight:,} changes are within the receptive field, too many to blame in a second: "
            "call `blame`."
        )

    def __str__(self) -> str:
        """The summary."""
        return self.summary()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """In a notebook."""
        return show(self.summary(), None if self.blame is None else self.blame.to_frame())


def find_happened(engine: SubsetEngine, root: Root, caption: Caption, seconds: float = 1.0) -> Happened:
    """Blame and undo with as many evaluations as fit into about a second; deterministic if that suffices."""
    evaluator = engine.open(root)
    blame = None
    if evaluator.num_changes <= MOST_CHANGES:
        pairs = max(ORDERED_EVALUATIONS // max(2 * evaluator.num_changes, 1), 16)
        effort = Effort(seconds=seconds, most_exact=EXACT_SUBSETS, most_pairs=pairs)
        with suppress(TooDear):  # a model that is slow itself
            blame = blame_target(engine, root, caption, effort=effort)
    undo = None
    if root.ends and engine.output.flipped(root.ends[0][0], root.ends[-1][1]):
        undo = undo_target(engine, root, caption, seconds=seconds)
    return Happened(blame, undo, evaluator.num_changes)
