"""What the records of this package share: names of what they are of, and what is required of their changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from itertools import chain
from typing import Annotated, Any, ClassVar, TypeAlias

import numpy as np
import pandas as pd

from ..arrays import FloatArray, IntArray
from ..errors import renamed
from ..explain import sentences
from ..explain.explanation import Caption, check_prediction
from ..graphs.changes import MODEL_RETRAINED, is_kind, name_kinds
from ..graphs.labels import ONE_WAY, TO, label_class
from ..graphs.places import NODE_UNIT, Target, Unit
from ..outputs import BINARY, CLASSES_OUTPUT, LABELS, NO_YES, VALUE, Output
from ..storage.codec import Count, NodeOrNone, Saved, Shape, Text, require
from ..storage.notebook import show
from ..storage.origin import Origin
from .engine import SubsetEvaluator
from .goal import predicted_values
from .root import Root
from .search import TriedSets

MOST_NAMED = 20  # changes that a sentence names
RowEnds: TypeAlias = Annotated[tuple[tuple[NodeOrNone, NodeOrNone], ...], Shape("rows")]  # src and dst; -1 for none
Ids: TypeAlias = tuple[NodeOrNone, ...]


def shared_fields(
    evaluator: SubsetEvaluator, root: Root, caption: Caption, logits: FloatArray, rows: pd.DataFrame
) -> dict[str, Any]:
    """The fields of all records: the prediction with `logits` before and after, and these rows of `changes()`."""
    class_before, class_after = evaluator.output.label_pair(logits[0], logits[1])
    target = root.target
    ends = list(zip(rows.src.fillna(-1).tolist(), rows.dst.fillna(-1).tolist(), strict=True))
    mentioned = {*chain.from_iterable(ends), *(target if isinstance(target, tuple) else (target,))}
    return {
        "target": target,
        "class_before": class_before,
        "class_after": class_after,
        "logits_before": logits[0],
        "logits_after": logits[1],
        "kinds": name_kinds(rows),
        "ends": tuple(ends),
        "directed": tuple(rows.directed.tolist()),
        "open_nodes": evaluator.players.opened,
        "node_names": {node: caption.node_names[node] for node in mentioned if node in caption.node_names},
        "class_names": caption.class_names,
        "origin": caption.origin,
        "unit": evaluator.unit,
        "output": evaluator.output,
    }


@dataclass(frozen=True, eq=False, kw_only=True)
class ChangeRecord(Saved, ABC):
    """A record of changes by their ids, with the names of its target and of their ends."""

    other_kinds: ClassVar[tuple[str, ...]] = (MODEL_RETRAINED,)  # of rows, beside the kinds of changes

    target: Target
    class_before: Count  # of one logit 1 for yes and 0 for no; of labels and values twice the column that moved most
    class_after: Count
    logits_before: Annotated[FloatArray, Shape("classes", finite=True)]
    logits_after: Annotated[FloatArray, Shape("classes", finite=True)]
    kinds: Annotated[tuple[Text, ...], Shape("rows")]  # of changes, or one of `other_kinds`
    ends: RowEnds
    num_evaluations: Count
    open_nodes: bool  # whether the edges of nodes that came or went are changes of their own
    node_names: dict[int, Text] = field(default_factory=dict)  # of the nodes mentioned, where the user has names
    class_names: tuple[Text, ...] = ()
    origin: Origin | None = None
    unit: Unit = NODE_UNIT
    output: Output = CLASSES_OUTPUT
    directed: tuple[bool, ...] = ()  # whether each row is of one direction only; empty where a file does not say

    def name_change(self, row: int) -> str:
        """A change in words: what happened, and to what."""
        between = ONE_WAY if row < len(self.directed) and self.directed[row] else TO
        return f"{self.kinds[row]} {between.join(self.name_of(end) for end in self.ends[row] if end >= 0)}".rstrip()

    def list_changes(self) -> str:
        """The first of them in words, and how many others there are."""
        named = [self.name_change(row) for row in range(min(len(self.kinds), MOST_NAMED))]
        others = len(self.kinds) - len(named)
        return (
            "; ".join([*named, *([f"{others:,} others" if others > 1 else "one other"] if others else [])]) or "nothing"
        )

    def name_of(self, node: int) -> str:
        """The user's name of a node, else its number."""
        return self.node_names.get(node, str(node))

    @property
    def name(self) -> str:
        """The user's name of the target, else its number; for a link, both ends."""
        if isinstance(self.target, tuple):
            return TO.join(map(self.name_of, self.target))
        return self.name_of(self.target) if self.unit == NODE_UNIT else str(self.target)

    @property
    def headline(self) -> str:
        """What happened to the prediction, without a full stop."""
        return sentences.headline(self)

    @property
    def prob_before(self) -> FloatArray:
        """Probabilities on `before`, or values. [num_classes]."""
        return self.output.means(self.logits_before)

    @property
    def prob_after(self) -> FloatArray:
        """The same on `after`."""
        return self.output.means(self.logits_after)

    @property
    def quantity(self) -> str:
        """What shares are shares of, in words: the probability of the new class or label, or the value."""
        if self.output.kind == VALUE:
            return "the value" if len(self.logits_before) == 1 else f"value {self.class_after}"
        if self.output.kind == LABELS:
            return f"the probability of label {label_class(self.class_after, self.class_names)}"
        return f"the probability of {self.class_name(self.class_after)}"

    @property
    def predicted_before(self) -> float:
        """The same on `before`."""
        return float(predicted_values(self.output, self.class_after, self.logits_before[None])[0])

    @property
    def predicted_after(self) -> float:
        """The same on `after`."""
        return float(predicted_values(self.output, self.class_after, self.logits_after[None])[0])

    told = renamed("told", "quantity")
    told_before = renamed("told_before", "predicted_before")
    told_after = renamed("told_after", "predicted_after")

    def class_name(self, label: int) -> str:
        """The user's name of a class, else `class` and its number; for one logit, `no` and `yes`."""
        if self.output.kind == BINARY and not self.class_names:
            return NO_YES[label]
        return self.class_names[label] if label < len(self.class_names) else f"class {label}"

    def check(self) -> None:
        """Kinds are those of changes, the classes fit the columns, and the target fits its unit."""
        check_prediction(self)
        strange = [kind for kind in self.kinds if not is_kind(kind, *self.other_kinds)]
        require(not strange, f"`kinds` should be kinds of changes; got {strange[:1]}")
        lengths_fit = len(self.directed) in (0, len(self.kinds))
        require(lengths_fit, "`directed` should be true or false for each row, or empty")

    @abstractmethod
    def summary(self) -> str:
        """What was found, in a few sentences."""

    def frame_rows(self, changes: pd.Series[Any]) -> pd.DataFrame:
        """One row per change: `change` (its id), kind, src and dst with their names."""
        frame = pd.DataFrame({"change": changes, "kind": self.kinds})
        for column, nodes in zip(("src", "dst"), np.array(self.ends, dtype=np.int64).reshape(-1, 2).T, strict=True):
            frame[column] = pd.array(nodes, dtype="Int64")
            frame.loc[nodes < 0, column] = pd.NA
            frame[f"{column}_name"] = [self.name_of(node) if node >= 0 else None for node in nodes.tolist()]
        return frame

    def __len__(self) -> int:
        """How many changes, or groups of them, it is of."""
        return len(self.kinds)

    def __str__(self) -> str:
        """The summary."""
        return self.summary()

    def _repr_html_(self) -> str:
        """In a notebook."""
        return show(self.summary())


@dataclass(frozen=True, eq=False, kw_only=True)
class ChosenChanges(ChangeRecord):
    """The best set of changes that a search found, and what is known of others."""

    changes: Annotated[Ids, Shape("rows")]  # as `changes(open_nodes=open_nodes)` numbers them
    logits: Annotated[FloatArray, Shape("classes", finite=True)]  # that the set gives
    proved: bool  # whether no smaller, or cheaper, set does; of so many changes, no other set does better
    how: Text  # how that is known, or what is not, in a sentence
    num_in_sight: Count

    def to_frame(self) -> pd.DataFrame:
        """One row per change of the set: change (its id), kind, src and dst with their names."""
        return self.frame_rows(pd.Series(self.changes, dtype=np.int64))


def chosen_fields(
    search: TriedSets, root: Root, caption: Caption, ends: FloatArray, chosen: IntArray, how: str
) -> dict[str, Any]:
    """The fields of a record of the best set, by places among the changes that reach the target."""
    evaluator, rows = search.evaluator, search.evaluator.changes.iloc[chosen]
    return {
        **shared_fields(evaluator, root, caption, ends, rows),
        "changes": tuple(rows.id.tolist()),
        "how": f"{how} {evaluator.note}".replace("  ", " ").rstrip(),
        "num_in_sight": evaluator.num_changes,
        "num_evaluations": search.num_evaluations,
    }
