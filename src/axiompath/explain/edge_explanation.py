"""EdgeExplanation: the frozen record of a change explained by edges, or by edges of single layers; JSON in and out."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd

from ..arrays import FloatArray, IntArray
from ..codec import Count, FileForm, Saved, Shape, Share, Text, one_of
from ..graphs.labels import TO
from ..graphs.places import NODE_UNIT, Target, Unit
from ..notebook import show
from ..origin import Origin
from ..outputs import CLASSES_OUTPUT, Output
from ..selection.choice import OBJECTIVES
from .explanation import Explanation, check_prediction
from .retrained import Retrained

LAYER_EDGE, EDGE = "layer_edge", "edge"
BY = (LAYER_EDGE, EDGE)
EDGE_KINDS = ("gained", "lost", "reweighted", "feature")
OF_THE_PREDICTION = {item.name for item in fields(Explanation)}


@dataclass(frozen=True, eq=False)
class EdgeExplanation(Saved):
    """Why the prediction of one target changed: the chosen edges, how well they do, and what they were chosen from."""

    form: ClassVar = FileForm("edge-explanation", 2)

    target: Target
    by: Annotated[str, one_of(*BY)]
    method: Text
    objective: Annotated[str, one_of(*OBJECTIVES)]
    budget: Count
    until: Share | None
    class_before: Count
    class_after: Count
    logits_before: Annotated[FloatArray, Shape("classes")]
    logits_after: Annotated[FloatArray, Shape("classes")]
    kl: float  # KL(P_after || P_before)
    num_units: Count  # changed edges, or layer edges, and leaves whose features changed, in all
    # 1 for the layer that takes from the leaves; 0 for all of them, and for features.
    layers: Annotated[IntArray, Shape("units")]
    # Sender and receiver; -1 for the predicted graph or link, and for features.
    edges: Annotated[IntArray, Shape("units", 2)]
    kinds: Annotated[tuple[Annotated[str, one_of(*EDGE_KINDS)], ...], Shape("units")]
    contributions: Annotated[FloatArray, Shape("units", "classes")]
    weights: Annotated[FloatArray, Shape("units")]  # of the relaxation, or 1
    kl_residual: float  # as of an Explanation, and so are bound and status
    kl_bound: float
    # Of `before` with exactly these coefficients, in these layers, of `after`.
    logits_added: Annotated[FloatArray, Shape("classes")]
    # Of `after` with them as in `before`; of two models, each on its own graph.
    logits_undone: Annotated[FloatArray, Shape("classes")]
    fidelity_minus: float
    fidelity_plus: float
    completeness: float  # largest difference between the sum of all units and the change of a logit
    status: Text
    fewest: Text = ""  # as of a Selection: what is known of fewer
    node_names: dict[int, Text] = field(default_factory=dict)
    class_names: tuple[Text, ...] = ()
    origin: Origin | None = None
    unit: Unit = NODE_UNIT
    output: Output = CLASSES_OUTPUT
    relations: tuple[tuple[Count, Count, Text], ...] = ()  # where edges have types: from, to, and what it is called
    retrained: Retrained | None = None  # where the model is another one: contributions are means under both

    @property
    def model_share(self) -> FloatArray:
        """The share of every logit's change that the model itself has; 0 where it is the same one. [num_classes]."""
        if self.retrained is None:
            return np.zeros(len(self.logits_before))
        crossed = self.logits_after - self.retrained.logits_after + self.retrained.logits_before - self.logits_before
        return 0.5 * crossed

    @property
    def gap(self) -> float:
        """No choice of this size leaves less by more."""
        return self.kl_residual - self.kl_bound

    @property
    def explained(self) -> float:
        """Share of the change of the distribution that the chosen units account for, as of an Explanation."""
        return self.prediction.explained

    @property
    def network_share(self) -> float:
        """Share of the way that the network itself goes with exactly these coefficients put in, or put back."""
        return self.prediction.network_share

    @cached_property
    def prediction(self) -> Explanation:
        """What is said of the prediction, which is the same whatever it is explained by; without paths."""
        values: dict[str, Any] = {
            item.name: getattr(self, item.name) for item in fields(self) if item.name in OF_THE_PREDICTION
        }
        values |= {"prob_before": self.output.means(self.logits_before), "gap": self.gap, "num_paths": 0}
        values |= {
            "prob_after": self.output.means(self.logits_after),
            "kinds": (),
            "weights": np.zeros(0),
            "causes": {},
            "retrained": None,
        }
        contributions = np.zeros((0, len(self.logits_before)))
        return Explanation(**{**values, "contributions": contributions, "paths": np.zeros((0, 0), dtype=np.int64)})

    def name_of(self, node: int) -> str:
        """The user's name of a node, else its number."""
        return self.prediction.name_of(node)

    def row_name(self, row: int) -> str:
        """A unit in words."""
        src, dst = self.edges[row].tolist()
        if self.kinds[row] == "feature":
            return f"features of {self.name_of(src)}"
        ends = [f"the {self.unit}" if end < 0 else self.name_of(end) for end in (src, dst)]
        named = any((u, v) == (src, dst) for u, v, _ in self.relations)
        joined = self.prediction.step(src, dst).join(ends) if named else TO.join(ends)
        return f"{joined}{f', layer {self.layers[row]}' if self.layers[row] else ''}"

    def to_frame(self) -> pd.DataFrame:
        """One row a unit: what it is in words, layer, src, dst, kind, and contribution to each class."""
        frame = pd.DataFrame({"layer": self.layers, "src": self.edges[:, 0], "dst": self.edges[:, 1]})
        frame["kind"] = self.kinds
        frame.insert(0, "unit", [self.row_name(row) for row in range(len(self.kinds))])
        columns = self.output.table_columns(self.contributions.shape[1], self.class_names)
        return pd.concat([frame, pd.DataFrame(self.contributions, columns=columns)], axis=1)

    def summary(self, limit: int = 5) -> str:
        """A few sentences: what happened, how much of it these edges explain, what the network answers, and which."""
        words = {LAYER_EDGE: "changed layer edges", EDGE: "changed edges"}[self.by]
        told = f"{self.prediction.headline}. {len(self.kinds)} of {self.num_units:,} {words}"
        if not np.isfinite(self.explained):
            return f"{told} were chosen; its distribution did not change."
        doing, goal = "`before` with exactly these put in", "`after`"
        if self.objective == "necessity":
            doing, goal = "`after` with exactly these put back", "`before`"
        goes = f"The network itself, run on {doing}, goes {100 * self.network_share:.0f} % of the way to {goal}."
        about, weights = self.prediction.view
        if self.retrained is not None:
            plain = self.objective == "sufficiency"
            left = self.retrained.fidelity_plus if plain else self.retrained.fidelity_minus
            old, new = (_way(self.output.explained(1.0, float(part))) for part in left)
            share = float(self.model_share @ weights)
            words = f"{words}, with the model's share ({share:+.3f} of {about}),"
            told = f"{self.prediction.headline}. {len(self.kinds)} of {self.num_units:,} {words}"
            goes = (
                f"Run on {doing}, the old model goes {old} and the new model {new} of the way to its own answer on "
                f"{goal}."
            )
        values = self.contributions @ weights
        rows = [
            f"  {self.row_name(i)}  ({self.kinds[i]}, {values[i]:+.3f})" for i in range(min(limit, len(self.kinds)))
        ]
        if len(self.kinds) > limit:
            rows.append(f"  and {len(self.kinds) - limit:,} more")
        shares = f"Their shares of {about}:"
        return "\n".join([f"{told} explain {100 * self.explained:.0f} % of the change. {goes}", shares, *rows])

    def __str__(self) -> str:
        """The summary."""
        return self.summary()

    def __repr__(self) -> str:
        """Its first line."""
        return f"EdgeExplanation: {self.summary(0).splitlines()[0]}"

    def _repr_html_(self) -> str:
        """In a notebook."""
        return show(self.summary(), self.to_frame())

    def check(self) -> None:
        """The classes fit the columns, and the target what it is."""
        check_prediction(self)


def _way(share: float) -> str:
    """How far a model goes; its answer may be the same on both graphs."""
    return f"{100 * max(share, 0.0):.0f} %" if np.isfinite(share) else "nothing"
