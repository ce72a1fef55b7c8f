"""Explanations of consecutive steps -> Story: what happened to one target over a sequence of snapshots, and why.

Contributions of a step sum to the change of the logits over that step, so those of consecutive steps sum to the change
from the first snapshot to the last:

    sum over steps s, over altered paths p of step s:  C_s[p]   =   z_last - z_first

A target is a node, a graph or a link. A snapshot that does not have it, or a step that was too large to explain, breaks
the sequence: the sum is then exact over each unbroken part. `residual` is what it misses, a number and not a belief.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import pandas as pd

from ..arrays import BoolArray, FloatArray
from ..change.states import CAUSE_WORDS, MODEL, RARE
from ..errors import InputError, renamed
from ..explain.explanation import Explanation
from ..graphs.expiry import TIME
from ..graphs.labels import FIRST_EDGE, name_edges, name_node, with_class_names
from ..graphs.places import NODE_UNIT, EdgePlace, Target, Unit, check_target
from ..outputs import BINARY, CLASSES, CLASSES_OUTPUT, LABELS, NO_YES, VALUE, Output, show_apart
from ..storage.codec import FileForm, Mismatch, Saved, Shape, Text, require
from ..storage.notebook import show
from ..storage.origin import Origin
from .story_text import describe_predictions, describe_shares, signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class Story(Saved):
    """One target over S snapshots: what was predicted at each, and why it changed at each of the S - 1 steps."""

    form: ClassVar = FileForm("story", 3)

    target: Target
    name: Text  # the user's, else the number
    snapshot_names: Annotated[tuple[Text, ...], Shape("snapshots")]
    class_names: tuple[Text, ...]  # [num_classes], or empty
    logits: Annotated[FloatArray, Shape("snapshots", "classes")]  # nan where the snapshot does not have the target
    explanations: Annotated[tuple[Explanation | None, ...], Shape("steps")]  # None where a note says why not
    notes: Annotated[tuple[Text, ...], Shape("steps")]  # empty where there is an explanation
    method: Text | None = None
    origin: Origin | None = None  # digests of the model and of "snapshot 0", ...
    unit: Unit = NODE_UNIT  # what the target is: a node, a graph or a link
    output: Output = CLASSES_OUTPUT  # what the columns of the logits mean

    @property
    def num_steps(self) -> int:
        """From a snapshot to the next."""
        return len(self.explanations)

    @cached_property
    def present(self) -> BoolArray:
        """Which snapshots have the target, [S]."""
        return np.asarray(~np.isnan(self.logits).any(axis=1))

    @cached_property
    def both(self) -> BoolArray:
        """Which steps have the target at both ends, [S - 1]."""
        return np.asarray(self.present[:-1] & self.present[1:])

    @cached_property
    def probabilities(self) -> FloatArray:
        """[S, num_classes]; for values, the values themselves; nan if the snapshot lacks the target."""
        return self.output.means(self.logits)

    @cached_property
    def column(self) -> int | None:
        """For labels and values, the column that moved the most over all steps, which the story describes; for one
        logit, that one."""
        if self.output.kind == CLASSES:
            return None
        before, after = self.logits[:-1][self.both], self.logits[1:][self.both]
        return int(self.output.by_column(after, before).sum(axis=0).argmax())

    @cached_property
    def classes(self) -> tuple[int | None, ...]:
        """The predicted class at each snapshot; for a logit, or the label that the story describes, 1 for yes and 0 for
        no; None if the snapshot lacks the target, and for values, which have no decision."""
        if self.output.kind == VALUE:
            return (None,) * len(self.logits)
        shown = self.logits if self.column is None else self.logits[:, self.column][:, None]
        decided = self.output.decide(shown)
        return tuple(int(label) if here else None for label, here in zip(decided, self.present, strict=True))

    @cached_property
    def kl(self) -> FloatArray:
        """KL(P_after || P_before) of each step, [S - 1]; for values, half the squared distance in units of the first
        snapshot's standard deviation; nan if one end lacks the target."""
        values = np.full(self.num_steps, np.nan)
        values[self.both] = self.output.divergence(self.logits[1:][self.both], self.logits[:-1][self.both])
        return values

    @property
    def turning_point(self) -> int | None:
        """The step with the largest KL; None if the prediction never moved."""
        kl = np.nan_to_num(self.kl)
        return int(kl.argmax()) if kl.max(initial=0.0) > 0 else None

    @property
    def flips(self) -> tuple[int, ...]:
        """Steps at which the decision changed: the class, or any of the labels; none for values."""
        changed = self.output.flipped(np.nan_to_num(self.logits[:-1]), np.nan_to_num(self.logits[1:]))
        return tuple(np.flatnonzero(changed & self.both).tolist())

    @property
    def causes(self) -> tuple[dict[str, FloatArray] | None, ...]:
        """Each step's change by cause, cause -> [num_classes]; None where the step has no explanation.

        If any step had another model, every step has the cause *model*; with windows, every step has *time*: what its
        passing did before the news came.
        """
        several = any(e is not None and e.retrained is not None for e in self.explanations)
        found = list[dict[str, FloatArray] | None]()
        for e, before in zip(self.explanations, self.logits, strict=False):
            causes = None if e is None else {**e.causes, MODEL: e.model_share} if several else e.causes
            if e is not None and causes is not None and (e.logits_before != before).any():
                causes = {**causes, TIME: e.logits_before - before}
            found.append(causes)
        return tuple(found)

    @property
    def unbroken(self) -> bool:
        """Whether every step is explained, so that the sum runs from the first snapshot to the last."""
        return all(e is not None for e in self.explanations)

    @property
    def residual(self) -> float:
        """Largest difference, over classes and unbroken parts, between all contributions of the part's steps and the
        change of the logits from its first snapshot to its last; nan where no step is explained."""
        misses = [np.abs(sum(self._totals(steps)) - change).max() for steps, change in self._parts()]
        return float(max(misses, default=np.nan))

    @property
    def view(self) -> tuple[str, FloatArray]:
        """The logit (or value) that the story is about, in words and as weights of the columns [num_classes].

        The last class against the first if they differ, else the new class against the old at the largest flip, else
        the class that it stayed in; for labels and values, the column that moved most.
        """
        if self.column is not None:
            return self._column_view(self.column)
        seen = [label for label in self.classes if label is not None]
        old, new = seen[0], seen[-1]
        if old == new and self.flips:
            step = max(self.flips, key=lambda s: self.kl[s])
            old, new = self.classes[step], self.classes[step + 1]  # type: ignore[assignment]
        return self.toward(old, new)

    @property
    def measure(self) -> str:
        """The name of `view` within a sentence: the logit of something, or a value."""
        return self._measured(self.view[0])

    def toward(self, old: int, new: int) -> tuple[str, FloatArray]:
        """The new class's logit against the old one's, or by itself where they are the same."""
        weights = self.output.weights(old, new, self.logits.shape[1])
        name = self.class_name(new)
        return name if old == new else f"{name} against {self.class_name(old)}", weights

    def class_name(self, label: int) -> str:
        """The user's name of a class, else its number; of a logit or a label `no` and `yes`."""
        if self.output.kind == LABELS:
            return NO_YES[label]
        return self.output.class_name(label, self.class_names)

    def column_name(self, column: int) -> str:
        """The user's name of a label or value, else what it is with its number."""
        return self.output.column_name(column, self.class_names, self.logits.shape[1])

    told_at = renamed("told_at", "predicted_at")

    def predicted_at(self, snapshot: int) -> str | None:
        """The prediction at a snapshot in a word: a class, a probability or a value; None if the target is absent."""
        if not self.present[snapshot]:
            return None
        label = self.classes[snapshot]
        if self.output.kind in (CLASSES, BINARY) and label is not None:
            return self.class_name(label)
        return self.show_numbers([snapshot])[0]

    def show_numbers(self, snapshots: Sequence[int]) -> list[str]:
        """The probability of the label, or the value, at each of these, with enough digits to distinguish each from the
        next."""
        values = [float(self.probabilities[snapshot, self.column or 0]) for snapshot in snapshots]
        return show_apart(values, 4, "g") if self.output.kind == VALUE else show_apart(values)

    def step_name(self, step: int) -> str:
        """The two snapshots of a step."""
        return f"{self.snapshot_names[step]} to {self.snapshot_names[step + 1]}"

    def to_frame(self) -> pd.DataFrame:
        """One row per step: snapshots, classes, KL, paths, and what each cause did to the logit that `view` names.

        For labels and values, the column that the story describes takes the place of classes. Names, if any, stand
        beside them.
        """
        _, weights = self.view
        rows = []
        listed = self.listed_causes
        for s, (e, causes, note) in enumerate(zip(self.explanations, self.causes, self.notes, strict=True)):
            shares = {cause: np.nan if causes is None else _share(causes, cause, weights) for cause in listed}
            rows.append(
                {
                    "target": self.target,
                    "name": self.name,
                    "before": self.snapshot_names[s],
                    "after": self.snapshot_names[s + 1],
                    **self._ends(s),
                    "kl": self.kl[s],
                    "num_paths": None if e is None else e.num_paths,
                    "chosen": None if e is None else len(e.paths),
                    "explained": np.nan if e is None else e.explained,
                    **shares,
                    "note": note,
                }
            )
        frame = pd.DataFrame(rows)
        whole = [name for name in ("class_before", "class_after", "num_paths", "chosen") if name in frame]
        return with_class_names(frame.astype(dict.fromkeys(whole, "Int64")), self.class_names)

    def _ends(self, step: int) -> dict[str, Any]:
        """What was predicted at both ends of a step, in the columns that `Explainer.moved` has for this output."""
        if self.output.kind in (CLASSES, BINARY):
            return {"class_before": self.classes[step], "class_after": self.classes[step + 1]}
        column = self.column or 0
        before, after = self.probabilities[step : step + 2, column].tolist()
        if self.output.kind == VALUE:
            return {"column": column, "value_before": before, "value_after": after}
        return {"label": column, "prob_before": before, "prob_after": after, "flipped": step in self.flips}

    def shares(self) -> pd.DataFrame:
        """One row per path that any step chose, with its contributions summed over these steps; the paths that moved
        the logit of `view` most come first. Paths that were not chosen count only in `causes`."""
        sums: dict[tuple[int, ...], FloatArray] = {}
        steps: dict[tuple[int, ...], list[int]] = {}
        chosen = [(s, i, e) for s, e in enumerate(self.explanations) if e is not None for i in range(len(e.paths))]
        for s, i, e in chosen:
            path = tuple(e.edge_places.get(node, node) for node in e.paths[i].tolist())  # an edge by its ends
            sums[path] = sums.get(path, 0.0) + e.contributions[i]
            steps.setdefault(path, []).append(s)
        _, weights = self.view
        ranked = sorted(sums, key=lambda path: -abs(float(sums[path] @ weights)))
        names = {node: name for _, _, e in chosen for node, name in e.node_names.items()}
        columns = self.output.table_columns(len(weights), self.class_names)
        rows = [
            {
                "target": self.target,
                "name": self.name,
                "path": path,
                "path_names": tuple(_name_place(place, names) for place in path),
                "steps": tuple(steps[path]),
                **dict(zip(columns, sums[path].tolist(), strict=True)),
            }
            for path in ranked
        ]
        return pd.DataFrame(rows, columns=["target", "name", "path", "path_names", "steps", *columns])

    @property
    def headline(self) -> str:
        """The sequence of classes (for labels and values, of numbers), without a full stop."""
        return f"{self.unit.capitalize()} {self.name}{describe_predictions(self)}"

    def summary(self) -> str:
        """A few sentences: the sequence of classes, the turning point and its causes, and the sums of the causes."""
        return "\n".join(self.sentences())

    def sentences(self) -> list[str]:
        """The summary, one by one."""
        lines = [f"{self.headline}."]
        if (s := self.turning_point) is None:
            lines.append("Its prediction never moved.")
        else:
            measured = "distance" if self.output.kind == VALUE else "KL"
            lines.append(f"It moved most from {self.step_name(s)} ({measured} {self.kl[s]:.3g}){self._why(s)}.")
        if self.unbroken and self.turning_point is not None:
            _, weights = self.view
            total = sum(self._totals(range(self.num_steps)))
            lines.append(
                f"From first to last {self.measure} changed by {signed(float(total @ weights))}: "
                f"{self._split(range(self.num_steps), weights)}; the steps sum to it to within {self.residual:.0e}."
            )
        lines += [
            f"{self.step_name(s).capitalize()} is not explained: {note}"
            for s, note in enumerate(self.notes)
            if note and not np.isnan(self.kl[s])
        ]
        return lines

    def __len__(self) -> int:
        """How many snapshots it runs over."""
        return len(self.snapshot_names)

    def plot(self, ax: Axes | None = None) -> Axes:
        """What was predicted at each snapshot, as lines on matplotlib axes, new ones or `ax`."""
        from ..report.plots import plot_story

        return plot_story(self, ax)

    def __str__(self) -> str:
        """The summary."""
        return self.summary()

    def __repr__(self) -> str:
        """The headline."""
        return f"Story: {self.headline}"

    def _repr_html_(self) -> str:
        """In a notebook."""
        return show(self.summary(), self.to_frame())

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, with the format's name and version; None for missing logits."""
        logits = [row.tolist() if here else None for row, here in zip(self.logits, self.present, strict=True)]
        return {**super().to_dict(), "logits": logits}

    @classmethod
    def unpack(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Read the explanations; missing logits become rows of nan."""
        rows, explanations = values.get("logits"), values.get("explanations")
        if isinstance(rows, list):
            width = next((len(row) for row in rows if isinstance(row, list)), 0)
            numbers = (number for row in rows if isinstance(row, list) for number in row)
            require(all(number == number for number in numbers), "`logits` should be finite, or null; got nan")
            values = values | {"logits": [[np.nan] * width if row is None else row for row in rows]}
        if isinstance(explanations, list):
            values = values | {"explanations": [_read_step(step, e) for step, e in enumerate(explanations)]}
        return values

    def check(self) -> None:
        """A step between each two snapshots, explanations of what the story is of, where both have the target."""
        check_target(self.target, self.unit)
        steps, width = self.logits.shape[0] - 1, self.logits.shape[1]
        require(self.num_steps == steps, f"`explanations` and `notes` should be {steps}, a step each")
        require(width > 0 and self.present.any(), "`logits` should have classes, and some snapshot the target")
        require(np.isfinite(self.logits[self.present]).all(), "`logits` should be finite, or null")
        require(width == 1 or self.output.kind != BINARY, f"`output` should be binary of one logit only; got {width}")
        for both, explanation in zip(self.both, self.explanations, strict=True):
            fits = explanation is None or (
                both and (explanation.unit, explanation.output.kind) == (self.unit, self.output.kind)
            )
            require(fits, "`explanations` should be of what the story is of, between snapshots that have the target")

    def _parts(self) -> Iterator[tuple[range, FloatArray]]:
        """Unbroken parts: their steps, and the change of the logits over them."""
        for explanation, group in groupby(range(self.num_steps), lambda s: self.explanations[s] is not None):
            steps = list(group)
            if explanation:
                yield range(steps[0], steps[-1] + 1), self.logits[steps[-1] + 1] - self.logits[steps[0]]

    def _totals(self, steps: range) -> list[FloatArray]:
        return [part for s in steps for part in (self.causes[s] or {}).values()]

    def _why(self, step: int) -> str:
        if self.explanations[step] is None or not self.both[step]:
            return ""
        label, weights = self.view
        old, new = self.classes[step : step + 2]
        if self.output.kind == CLASSES and old is not None and new is not None:
            label, weights = self.toward(old, new)
        change = float((self.logits[step + 1] - self.logits[step]) @ weights)
        return f": {signed(change)} on {self._measured(label)}, {self._split(range(step, step + 1), weights)}"

    def _column_view(self, column: int) -> tuple[str, FloatArray]:
        name = self.class_name(1) if self.output.kind == BINARY else self.column_name(column)
        return name, self.output.weights(column, column, self.logits.shape[1])

    def _measured(self, label: str) -> str:
        return label if self.output.kind == VALUE else f"the logit of {label}"

    def _split(self, steps: range, weights: FloatArray) -> str:
        known = [causes for s in steps if (causes := self.causes[s]) is not None]
        listed = self.listed_causes
        return describe_shares({cause: sum(_share(causes, cause, weights) for causes in known) for cause in listed})

    @property
    def listed_causes(self) -> tuple[str, ...]:
        """Those of walks, and of rare ones and the model those that some step has."""
        said = {cause for causes in self.causes for cause in causes or ()}
        return tuple(cause for cause in (*CAUSE_WORDS, TIME) if cause in said or cause not in (*RARE, MODEL, TIME))


def _name_place(place: int | EdgePlace, names: Mapping[int, str]) -> str:
    return name_node(place, names) if isinstance(place, int) else name_edges({FIRST_EDGE: place}, names)[FIRST_EDGE]


def _read_step(step: int, values: Any) -> Explanation | None:
    try:
        return None if values is None else Explanation.from_dict(values)
    except InputError as error:
        raise Mismatch(f"`explanations[{step}]`: {str(error).rstrip('.')}") from error


def _share(causes: dict[str, FloatArray], cause: str, weights: FloatArray) -> float:
    return float(causes[cause] @ weights) if cause in causes else 0.0
