"""Explanation: the frozen record of why one prediction changed; JSON in and out. Drawing is report/'s, loaded late."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.explain import Explanation as PyGExplanation

from .activations import FloatArray, IntArray
from .errors import InputError
from .metrics import kl_divergence
from .states import KINDS
from .trust import blamed, read_json
from .writing import write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")

FORMAT = "axiompath.explanation"
VERSION = 1


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why the prediction of one node changed: the chosen paths, how well they do, and what they were chosen from."""

    target: int
    method: str
    objective: str
    budget: int
    class_before: int
    class_after: int
    prob_before: FloatArray  # [num_classes]
    prob_after: FloatArray  # [num_classes]
    logits_before: FloatArray  # [num_classes]
    logits_after: FloatArray  # [num_classes]
    kl: float  # KL(P_after || P_before)
    num_paths: int  # altered paths in all
    paths: IntArray  # [n, num_hops + 1], leaf first, -1 before a bias source; most important first
    contributions: FloatArray  # [n, num_classes]
    weights: FloatArray  # [n]: of the relaxation, or 1
    kinds: tuple[str, ...]  # [n]: gained, lost, reweighted, feature, or unchanged (a rival's choice)
    causes: dict[str, FloatArray]  # kind -> [num_classes], over all altered paths
    kl_residual: float  # what the chosen paths leave: KL(P_after || P_n), or the mirror image for necessity
    kl_bound: float  # no choice of this size leaves less
    gap: float  # kl_residual - kl_bound
    fidelity_minus: float  # KL(P(after, paths undone) || P_before) / kl
    fidelity_plus: float  # KL(P(before, paths added) || P_after) / KL(P_before || P_after)
    completeness: float  # largest difference between the sum of all contributions and the change of a logit
    status: str
    node_names: dict[int, str] = field(default_factory=dict)  # of the nodes mentioned, where the user has names
    class_names: tuple[str, ...] = ()
    graph: Data | None = field(default=None, repr=False)  # `after`, for to_pyg; not saved

    @property
    def explained(self) -> float:
        """Share of the change of the distribution that the chosen paths account for: 1 - kl_residual / its whole."""
        ends = (self.logits_after, self.logits_before)
        whole = float(kl_divergence(*(ends if self.objective == "sufficiency" else ends[::-1])))
        return 1.0 - self.kl_residual / whole if whole > 0 else 1.0

    def name_of(self, node: int) -> str:
        """The user's name of a node, else its number; `bias` for -1."""
        return "bias" if node < 0 else self.node_names.get(int(node), str(int(node)))

    def class_name(self, label: int) -> str:
        """The user's name of a class, else its number."""
        return self.class_names[label] if label < len(self.class_names) else str(label)

    @property
    def headline(self) -> str:
        """What happened to the prediction, without a full stop."""
        old, new = self.class_before, self.class_after
        shown = f"Node {self.name_of(self.target)}"
        if old == new:
            return (
                f"{shown} stayed in class {self.class_name(new)} "
                f"({self.prob_before[new]:.2f} before, {self.prob_after[new]:.2f} after)"
            )
        return (
            f"{shown} went from class {self.class_name(old)} ({self.prob_before[old]:.2f}) "
            f"to class {self.class_name(new)} ({self.prob_after[new]:.2f})"
        )

    @property
    def verdict(self) -> str:
        """The same and how much of it is explained, with a full stop."""
        if self.num_paths == 0:
            return f"{self.headline}; nothing that reaches it changed."
        if len(self.paths) == 0:
            return f"{self.headline}; none of its {self.num_paths:,} altered paths was chosen."
        return (
            f"{self.headline}. {len(self.paths):,} of {self.num_paths:,} altered paths explain "
            f"{100 * self.explained:.0f} % of the change."
        )

    def summary(self, limit: int = 5) -> str:
        """A few sentences: what happened, how much of it is explained, by which paths."""
        if self.num_paths == 0 or len(self.paths) == 0:
            return self.verdict
        old, new = self.class_before, self.class_after
        shift = self.contributions[:, new] - (self.contributions[:, old] if old != new else 0.0)
        toward = f"{self.class_name(new)} against {self.class_name(old)}" if old != new else self.class_name(new)
        told = [
            f"  {' → '.join(self.name_of(node) for node in path)}  ({kind}, {value:+.3f})"
            for path, kind, value in zip(self.paths[:limit], self.kinds, shift, strict=False)
        ]
        if len(self.paths) > limit:
            told.append(f"  and {len(self.paths) - limit:,} more")
        return f"{self.verdict[:-1]} (in brackets, their shares of the logit of {toward}):\n" + "\n".join(told)

    def __str__(self) -> str:
        """The summary."""
        return self.summary()

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold, with the format's name and version."""
        values: dict[str, Any] = {"format": FORMAT, "version": VERSION}
        for item in fields(self):
            if item.name != "graph":
                values[item.name] = _plain(getattr(self, item.name))
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Explanation:
        """The record again, every field checked; raises InputError with a sentence where one is amiss."""
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise InputError(f"Expected a saved explanation (format {FORMAT!r}); got something else.")
        if values.get("version") != VERSION:
            raise InputError(
                f"Expected version {VERSION} of the format (got {str(values.get('version'))[:20]}); "
                "use the release of axiompath that wrote it, or save it again."
            )
        known = {item.name for item in fields(cls)} - {"graph"}
        missing, strange = known - set(values), set(values) - known - {"format", "version"}
        if missing or strange:
            raise InputError(
                f"Expected the fields of an explanation (missing: {', '.join(sorted(missing)) or 'none'}; "
                f"unknown: {', '.join(sorted(map(str, strange))[:3]) or 'none'})."
            )
        with blamed("Expected a whole explanation (one of its fields has another form)."):
            return _rebuild(cls, values)

    def save(self, path: str | Path) -> None:
        """Write JSON; a file that is there is replaced only once the new one is whole."""
        write_json(path, self.to_dict())

    @classmethod
    def load(cls, path: str | Path) -> Explanation:
        """Read what `save` wrote."""
        return read_record(path, cls.from_dict)

    def to_html(self) -> str:
        """One self-contained page: flow picture, waterfall, probabilities, table of paths."""
        from .report.html import render_frontier

        return render_frontier([self])

    def save_html(self, path: str | Path) -> None:
        """Write that page; a file that is there is replaced only once the new one is whole."""
        write_text(path, self.to_html())

    def plot(self, label: int | None = None) -> Figure:
        """The same as a matplotlib figure; `label` picks the class whose logit is shown, else new against old."""
        from .report.plots import plot_explanation

        return plot_explanation(self, label)

    def _repr_html_(self) -> str:
        from .report.plots import to_notebook_html

        return to_notebook_html(self)

    def to_pyg(self, graph: Data | None = None) -> PyGExplanation:
        """A torch_geometric Explanation of `after`: edge_mask sums what the chosen paths over it add to the new class.

        An explanation read from a file has no graph; pass `after` then.
        """
        data = graph if graph is not None else self.graph
        if data is None:
            raise ValueError("Expected the graph `after` (this explanation was read from a file); call to_pyg(after).")
        num_nodes = int(data.num_nodes or 0)
        ids = np.arange(num_nodes) if data.get("n_id") is None else np.asarray(data.n_id)
        u, v = ids[np.asarray(data.edge_index)]
        shares: dict[tuple[int, int], float] = {}
        for path, share in zip(self.paths.tolist(), self.contributions[:, self.class_after], strict=True):
            for step in pairwise(path):
                shares[step] = shares.get(step, 0.0) + float(share)
        mask = torch.tensor([shares.get(step, 0.0) for step in zip(u.tolist(), v.tolist(), strict=True)])
        target = int(np.flatnonzero(ids == self.target)[0])
        return PyGExplanation(
            x=data.x,
            edge_index=data.edge_index,
            edge_mask=mask,
            target=torch.tensor([self.class_after]),
            index=torch.tensor([target]),
            prediction=torch.from_numpy(self.logits_after)[None],
        )


def with_names(explanation: Explanation, node_names: Mapping[int, str], class_names: tuple[str, ...]) -> Explanation:
    """The same record with the names of the nodes that it mentions."""
    mentioned = {explanation.target, *explanation.paths.ravel().tolist()}
    names = {node: node_names[node] for node in sorted(mentioned) if node in node_names}
    return replace(explanation, node_names=names, class_names=class_names)


def write_json(path: str | Path, values: dict[str, Any]) -> None:
    """Write a record whole or not at all."""
    write_text(path, json.dumps(values, indent=1, allow_nan=True))


def read_record(path: str | Path, build: Callable[[Any], T]) -> T:
    """Read what `write_json` wrote; what is amiss with it is said of that file."""
    values = read_json(Path(path))
    try:
        return build(values)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _rebuild(cls: type[Explanation], values: dict[str, Any]) -> Explanation:
    num_classes = len(values["logits_before"])
    vectors = {
        name: _array(values[name], np.float64, (num_classes,), name)
        for name in ("prob_before", "prob_after", "logits_before", "logits_after")
    }
    n = len(values["paths"])
    length = len(values["paths"][0]) if n else 0
    paths = _array(values["paths"], np.int64, (n, length), "paths")
    whole = {name: values[name] for name in ("target", "budget", "class_before", "class_after", "num_paths")}
    if not all(type(value) is int and value >= 0 for value in whole.values()) or whole["target"] >= 2**63:
        raise InputError(f"Expected whole numbers of 0 or more in {', '.join(whole)} (got something else).")
    numbers = {
        name: float(_array(values[name], np.float64, (), name))
        for name in ("kl", "kl_residual", "kl_bound", "gap", "fidelity_minus", "fidelity_plus", "completeness")
    }
    kinds, causes = read_words(values["kinds"], "kinds"), values["causes"]
    if len(kinds) != n or not {*kinds} <= {*KINDS, "unchanged"} or (paths < -1).any() or set(causes) != set(KINDS):
        raise InputError("Expected paths [n, hops + 1] and n kinds among those known (got something else).")
    if not all(whole[name] < num_classes for name in ("class_before", "class_after")):
        raise InputError(f"Expected classes between 0 and {num_classes - 1} (got others).")
    if not all(np.isfinite(vector).all() for vector in vectors.values()):
        raise InputError("Expected finite logits and probabilities (got NaN or infinite ones).")
    known: dict[str, Any] = {**whole, **vectors, **numbers}
    for name in ("method", "objective", "status"):
        (known[name],) = read_words([values[name]], name)
    nodes, names = list(values["node_names"]), read_words(list(values["node_names"].values()), "node_names")
    return cls(
        **known,
        paths=paths,
        contributions=_array(values["contributions"], np.float64, (n, num_classes), "contributions"),
        weights=_array(values["weights"], np.float64, (n,), "weights"),
        kinds=kinds,
        causes={kind: _array(part, np.float64, (num_classes,), "causes") for kind, part in causes.items()},
        node_names={int(node): name for node, name in zip(nodes, names, strict=True)},
        class_names=read_words(values["class_names"], "class_names"),
    )


def read_words(values: Any, name: str) -> tuple[str, ...]:
    """A list of text, all of which can be written again."""
    if not isinstance(values, (list, tuple)) or not all(isinstance(value, str) for value in values):
        raise InputError(f"Expected a list of text in `{name}` (got something else).")
    return tuple(value.encode().decode() for value in values)  # half a letter cannot be written anywhere


def _array(value: Any, dtype: type, shape: tuple[int, ...], name: str) -> Any:
    array: Any = np.asarray(value)
    if array.size == 0 and 0 in shape:
        return np.zeros(shape, dtype=dtype)
    if array.shape != shape:
        raise InputError(f"Expected `{name}` of shape {shape} (got {array.shape}).")
    # Whole numbers beyond 64 bits become objects, truth values and text are none, and 1.5 is no node.
    if array.dtype.kind not in ("i" if dtype is np.int64 else "if"):
        raise InputError(f"Expected numbers in `{name}` (got others, or something else).")
    return array.astype(dtype)
