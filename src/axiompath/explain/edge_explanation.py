"""EdgeExplanation: the frozen record of a change explained by edges, or by edges of single layers; JSON in and out."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ..arrays import FloatArray, IntArray
from ..errors import InputError
from ..graphs.labels import TO
from ..graphs.places import NODE_UNIT, Target
from ..notebook import show
from ..origin import Origin
from ..outputs import CLASSES_OUTPUT, Output
from ..saved import FileForm, Saved, rebuild
from ..trust import read_words
from .explanation import Explanation, read_array, read_relations, read_retrained, read_target, read_task
from .retrained import Retrained

LAYER_EDGE, EDGE = "layer_edge", "edge"
BY = (LAYER_EDGE, EDGE)
EDGE_KINDS = ("gained", "lost", "reweighted", "feature")
OF_THE_PREDICTION = {item.name for item in fields(Explanation)}


@dataclass(frozen=True, eq=False)
class EdgeExplanation(Saved):
    """Why the prediction of one target changed: the chosen edges, how well they do, and what they were chosen from."""

    form: ClassVar = FileForm("edge-explanation", 2, {"relations": 2, "retrained": 2})

    target: Target
    by: str  # edge or layer_edge
    method: str
    objective: str
    budget: int
    until: float | None
    class_before: int
    class_after: int
    logits_before: FloatArray  # [num_classes]
    logits_after: FloatArray  # [num_classes]
    kl: float  # KL(P_after || P_before)
    num_units: int  # changed edges, or layer edges, and leaves whose features changed, in all
    layers: IntArray  # [n]: 1 for the layer that takes from the leaves; 0 for all of them, and for features
    edges: IntArray  # [n, 2]: sender and receiver; -1 for the predicted graph or link, and for features
    kinds: tuple[str, ...]  # [n]: gained, lost, reweighted or feature
    contributions: FloatArray  # [n, num_classes]
    weights: FloatArray  # [n]: of the relaxation, or 1
    kl_residual: float  # as of an Explanation, and so are bound and status
    kl_bound: float
    logits_added: FloatArray  # [num_classes]: of `before` with exactly these coefficients, in these layers, of `after`
    logits_undone: (
        FloatArray  # [num_classes]: of `after` with them as in `before`; of two models, each on its own graph
    )
    fidelity_minus: float
    fidelity_plus: float
    completeness: float  # largest difference between the sum of all units and the change of a logit
    status: str
    fewest: str = ""  # as of a Selection: what is known of fewer
    node_names: dict[int, str] = field(default_factory=dict)
    class_names: tuple[str, ...] = ()
    origin: Origin | None = None
    unit: str = NODE_UNIT
    output: Output = CLASSES_OUTPUT
    relations: tuple[tuple[int, int, str], ...] = ()  # where edges have types: from, to, and what it is called
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

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> EdgeExplanation:
        """The record again, every field checked; raises InputError with a sentence where one is amiss."""
        return rebuild(cls, values, _rebuild)


def _way(share: float) -> str:
    """How far a model goes; its answer may be the same on both graphs."""
    return f"{100 * max(share, 0.0):.0f} %" if np.isfinite(share) else "nothing"


def _rebuild(cls: type[EdgeExplanation], values: dict[str, Any]) -> EdgeExplanation:
    n, c = len(values["kinds"]), len(values["logits_before"])
    unit, output = read_task(values)
    output.check_width(c, "the explanation")
    known: dict[str, Any] = {}
    for name in ("logits_before", "logits_after", "logits_added", "logits_undone"):
        known[name] = read_array(values[name], np.float64, (c,), name)
    for name in ("kl", "kl_residual", "kl_bound", "fidelity_minus", "fidelity_plus", "completeness"):
        known[name] = float(read_array(values[name], np.float64, (), name))
    whole = {name: values[name] for name in ("budget", "class_before", "class_after", "num_units")}
    if not all(type(value) is int and 0 <= value < 2**63 for value in whole.values()):
        raise InputError(f"Expected whole numbers of 0 or more in {', '.join(whole)} (got something else).")
    if not max(whole["class_before"], whole["class_after"]) < max(c, 2):
        raise InputError(f"Expected classes between 0 and {c - 1} (got {whole}).")
    words = ("by", "method", "objective", "status", "fewest")
    known |= dict(zip(words, read_words([values[name] for name in words], "status"), strict=True))
    kinds, until = read_words(values["kinds"], "kinds"), values["until"]
    if not {*kinds} <= {*EDGE_KINDS} or known["by"] not in BY:
        raise InputError(f"Expected kinds among {', '.join(EDGE_KINDS)}, by edge or layer_edge (got others).")
    if until is not None and not (type(until) in (int, float) and 0 < until <= 1):
        raise InputError("Expected a share above 0 and up to 1 in `until` (got something else).")
    names = read_words(list(values["node_names"].values()), "node_names")
    return cls(
        **known,
        **whole,
        target=read_target(values["target"], unit),
        unit=unit,
        output=output,
        until=until,
        relations=read_relations(values.get("relations") or ()),
        retrained=read_retrained(values.get("retrained"), c),
        layers=read_array(values["layers"], np.int64, (n,), "layers"),
        edges=read_array(values["edges"], np.int64, (n, 2), "edges"),
        kinds=kinds,
        contributions=read_array(values["contributions"], np.float64, (n, c), "contributions"),
        weights=read_array(values["weights"], np.float64, (n,), "weights"),
        node_names={int(node): name for node, name in zip(values["node_names"], names, strict=True)},
        class_names=read_words(values["class_names"], "class_names"),
        origin=None if values["origin"] is None else Origin.from_dict(values["origin"]),
    )
