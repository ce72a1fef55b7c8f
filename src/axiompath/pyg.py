"""torch_geometric.explain -> AxiomPath: the way in for code that already uses PyG's Explainer.

    explainer = torch_geometric.explain.Explainer(
        model, algorithm=PyGAlgorithm(before, budget=10), explanation_type="model", edge_mask_type="object",
        model_config=dict(mode="multiclass_classification", task_level="node", return_type="raw"),
    )
    explanation = explainer(after.x, after.edge_index, index=17)

PyG's masks lie between 0 and 1, so the edge mask is the size of what the chosen paths over an edge contribute to the
predicted class, relative to the largest; of typed graphs there is one for each relation. Edges that the graph no longer
has are in `explanation.lost_edges`, what nodes pass to themselves without an edge in `explanation.loops`, by the same
measure, which may exceed 1 there. The signed numbers are in `explanation.explanations`, one Explanation per node.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.explain import Explanation as PyGExplanation
from torch_geometric.explain import HeteroExplanation
from torch_geometric.explain.algorithm import ExplainerAlgorithm
from torch_geometric.explain.config import ExplanationType, MaskType, ModelMode, ModelTaskLevel

from .errors import InputError, WrongKind
from .explain.explanation import Explanation
from .explain.question import Question
from .explainer import Explainer
from .graphs.data_fields import node_numbers
from .graphs.stack import find_schema
from .outputs import BINARY, CLASSES, LABELS, VALUE
from .readers import ModelCall
from .selection import DEFAULT_METHOD

Features: TypeAlias = torch.Tensor | dict[Any, torch.Tensor]


class NamedExplanation(PyGExplanation):  # type: ignore[misc]
    """A PyG Explanation that draws nodes by their names."""

    def visualize_graph(
        self, path: str | None = None, backend: str | None = None, node_labels: list[str] | None = None
    ) -> None:
        """As PyG draws it, with the names of the nodes, if any."""
        super().visualize_graph(path, backend, self.get("node_names") if node_labels is None else node_labels)


class NamedHeteroExplanation(HeteroExplanation):  # type: ignore[misc]
    """A PyG HeteroExplanation that draws nodes by their names."""

    def visualize_graph(
        self, path: str | None = None, node_labels: dict[str, list[str]] | None = None, **ranges: Any
    ) -> None:
        """As PyG draws it, with the names of the nodes, if any."""
        named = self.collect("node_names", True)
        super().visualize_graph(path, (named or None) if node_labels is None else node_labels, **ranges)


class PyGAlgorithm(ExplainerAlgorithm):  # type: ignore[misc]
    """An algorithm for `torch_geometric.explain.Explainer` that explains why a prediction changed.

    The Explainer is called with the graph after; `before` is the one that it is compared with, or None for the same
    nodes without edges. Typed graphs (dicts of features and edges) give a `HeteroExplanation` with a mask per relation.
    Names of nodes (`node_names`, or `before.node_names`) label what `visualize_graph` draws.
    """

    def __init__(
        self,
        before: Data | HeteroData | None,
        budget: int = 10,
        method: str = DEFAULT_METHOD,
        objective: str = "sufficiency",
        memory: str | float = "2GB",
        call: ModelCall | None = None,
        node_names: Any = None,
    ) -> None:
        super().__init__()
        self.before, self.memory, self.call, self.node_names = before, memory, call, node_names
        self.question = Question(budget, method, objective)  # checked here, before any work

    def supports(self) -> bool:
        """Nodes, edges and graphs; classes, one logit and values; `explanation_type="model"`, one number per edge."""
        reasons = {
            "explanation_type must be 'model'": self.explainer_config.explanation_type == ExplanationType.model,
            "edge_mask_type must be 'object'": self.explainer_config.edge_mask_type == MaskType.object,
            "node_mask_type must be None": self.explainer_config.node_mask_type is None,
        }
        for reason, met in reasons.items():
            if not met:
                logging.error("%s: %s", type(self).__name__, reason)
        return all(reasons.values())

    def forward(
        self,
        model: torch.nn.Module,
        x: Features,
        edge_index: Features,
        *,
        target: torch.Tensor,
        index: int | torch.Tensor | None = None,
        **kwargs: Any,
    ) -> NamedExplanation | NamedHeteroExplanation:
        """The edge mask of the nodes, edges or graphs in `index`, or of all whose prediction changed."""
        after = gather_graph(x, edge_index, kwargs)
        level = self.model_config.task_level
        output = {ModelMode.multiclass_classification: CLASSES, ModelMode.regression: VALUE}.get(
            self.model_config.mode, LABELS if target.numel() > count_answers(after, level, target) else BINARY
        )
        explainer = Explainer(
            model,
            self.before,
            after,
            memory=self.memory,
            call=self.call,
            output=output,
            node_names=self.node_names if self.node_names is not None else names_of(self.before),
        )
        targets = explainer.moved().target.tolist()
        if index is not None:
            rows = torch.as_tensor(index).reshape(-1)
            targets = name_targets((self.before, after), level, rows, target.numel(), targets)
        engine, found = explainer.session.locate(targets)
        explanations = list(engine.explain(found, self.question, explainer.memory))
        return mask_edges(self.before, after, explanations, explainer.node_names)


def gather_graph(x: Features, edge_index: Features, arguments: Mapping[str, Any]) -> Data | HeteroData:
    """The graph that PyG's Explainer is called with; its further arguments become fields, and so reach the model."""
    if isinstance(x, torch.Tensor):
        return Data(x=x, edge_index=edge_index, **arguments)
    data = HeteroData()
    fields = {"x_dict": x, "edge_index_dict": edge_index, **arguments}
    for name, value in fields.items():
        if not name.endswith("_dict"):
            data[name] = value
            continue
        for kind, part in value.items():
            data[kind][name.removesuffix("_dict")] = part
    return data


def count_answers(after: Data | HeteroData, level: ModelTaskLevel, target: torch.Tensor) -> int:
    """Rows of the model's output; PyG lays the answers of several labels in one row."""
    if isinstance(after, HeteroData):
        sizes = [store.num_nodes for store in after.node_stores]
        return max((size for size in sizes if target.numel() % size == 0), default=1)
    if level == ModelTaskLevel.edge:
        return int(after.edge_label_index.shape[1])
    if level == ModelTaskLevel.graph:
        return 1 if after.get("batch") is None else int(after.batch.max()) + 1
    return int(after.x.shape[0])


def name_targets(
    graphs: tuple[Data | HeteroData | None, Data | HeteroData],
    level: ModelTaskLevel,
    rows: torch.Tensor,
    num_answers: int,
    moved: Sequence[int],
) -> list[Any]:
    """What the rows of the model's output are called: numbers of nodes or graphs, or pairs of numbers."""
    after = graphs[1]
    chosen: list[int] = rows.tolist()
    if level == ModelTaskLevel.graph or (isinstance(after, Data) and level == ModelTaskLevel.node):
        return chosen
    if isinstance(after, Data):
        pairs = node_numbers(after)[after.edge_label_index.cpu().numpy()].T.tolist()
        return [tuple(pairs[row]) for row in chosen]
    if level == ModelTaskLevel.edge:
        raise WrongKind(
            "Expected nodes or graphs to explain (got pairs of nodes of several types); ask axiompath.Explainer(model, "
            "before, after, links=[...]), which names the types of both ends."
        )
    schema = find_schema(_typed(graphs))
    kinds = {schema.node(number)[0] for number in moved} or {
        kind for kind in after.node_types if after[kind].num_nodes == num_answers
    }
    if len(kinds) != 1:
        raise InputError(
            f"Expected to know which type of nodes the model predicts (no prediction changed, and {len(kinds)} types "
            f"have as many nodes as it has answers, {num_answers}); ask axiompath.Explainer, which takes types."
        )
    (kind,) = kinds
    return [schema.number(kind, number) for row in chosen for number in [own_numbers(after, kind)[row]]]


def own_numbers(data: HeteroData, kind: str) -> list[int]:
    """The number of each node of a type: its `n_id`, else its row."""
    numbers = data[kind].get("n_id")
    return list(range(data[kind].num_nodes)) if numbers is None else list(numbers.tolist())


def names_of(before: Data | HeteroData | None) -> Any:
    """The names that `before` brings along, by number; PyG hands over none of `after`."""
    if isinstance(before, HeteroData):
        named = {kind: before[kind].get("name") for kind in before.node_types}
        found = {k: dict(zip(own_numbers(before, k), v, strict=True)) for k, v in named.items() if v is not None}
        return found or None
    names = None if before is None else before.get("node_names")
    return None if before is None or names is None else dict(zip(node_numbers(before).tolist(), names, strict=True))


def mask_edges(
    before: Data | HeteroData | None,
    after: Data | HeteroData,
    explanations: Sequence[Explanation],
    names: Mapping[int, str],
) -> NamedExplanation | NamedHeteroExplanation:
    """Explanations on the edges of `after`, relative to the largest."""
    mask, loops = torch.zeros(int(after.num_edges)), torch.zeros(int(after.num_nodes or 0))
    lost: dict[tuple[int, int], float] = {}
    for explanation in explanations:
        placed = explanation.to_pyg()
        mask += placed.edge_mask.abs()
        loops += placed.loops.abs()
        for edge, share in placed.lost_edges.items():
            lost[edge] = lost.get(edge, 0.0) + abs(share)
    largest = (float(mask.max()) if len(mask) else 0.0) or 1.0
    mask, loops = mask / largest, loops / largest
    if isinstance(after, Data):
        found = NamedExplanation(edge_mask=mask, loops=loops)
        found.lost_edges = {edge: share / largest for edge, share in lost.items()}
        found.explanations = explanations
        if names:
            found.node_names = [names.get(node, str(node)) for node in node_numbers(after).tolist()]
        return found
    # Nodes of all types are rows of one graph, type by type; edges likewise, relation by relation.
    schema = find_schema(_typed((before, after)))
    typed = NamedHeteroExplanation()
    first = 0
    for kind in schema.node_types:
        numbers = own_numbers(after, kind)
        typed[kind].loops = loops[first : first + len(numbers)]
        if names:
            typed[kind].node_names = [names.get(schema.number(kind, node), str(node)) for node in numbers]
        first += len(numbers)
    first = 0
    for relation in schema.relations:
        last = first + int(after[relation].num_edges)
        typed[relation].edge_mask = mask[first:last]
        first = last
    typed.lost_edges = {
        (schema.node(sender), schema.node(receiver)): share / largest for (sender, receiver), share in lost.items()
    }
    typed.explanations = explanations
    return typed


def _typed(graphs: tuple[Data | HeteroData | None, Data | HeteroData]) -> list[HeteroData]:
    return [data for data in graphs if isinstance(data, HeteroData)]
