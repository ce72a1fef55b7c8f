"""torch_geometric.explain -> AxiomPath: the way in for code that already uses PyG's Explainer.

    explainer = torch_geometric.explain.Explainer(
        model, algorithm=PyGAlgorithm(before, budget=10), explanation_type="model", edge_mask_type="object",
        model_config=dict(mode="multiclass_classification", task_level="node", return_type="raw"),
    )
    explanation = explainer(after.x, after.edge_index, index=17)

PyG's masks lie between 0 and 1, so the edge mask is the size of what the chosen paths over an edge contribute to the
predicted class, relative to the largest. Edges that the graph no longer has are in `explanation.lost_edges`, what nodes
pass to themselves without an edge in `explanation.loops`, by the same measure, which may exceed 1 there. The signed
numbers are in `explanation.explanations`, one Explanation a node.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch_geometric.data import Data
from torch_geometric.explain import Explanation as PyGExplanation
from torch_geometric.explain.algorithm import ExplainerAlgorithm
from torch_geometric.explain.config import ExplanationType, MaskType, ModelMode, ModelTaskLevel

from .errors import WrongKind
from .explain.question import Question
from .explainer import Explainer
from .graphs.data_fields import node_numbers
from .outputs import BINARY, CLASSES, LABELS, VALUE
from .readers import ModelCall
from .selection import DEFAULT_METHOD


class PyGAlgorithm(ExplainerAlgorithm):  # type: ignore[misc]
    """Explains why predictions on the graph that is given differ from those on `before`, or (None) without edges."""

    def __init__(
        self,
        before: Data | None,
        budget: int = 10,
        method: str = DEFAULT_METHOD,
        objective: str = "sufficiency",
        memory: str | float = "2GB",
        call: ModelCall | None = None,
    ) -> None:
        super().__init__()
        self.before, self.memory, self.call = before, memory, call
        self.question = Question(budget, method, objective)  # checked here, before any work

    def supports(self) -> bool:
        """Nodes, edges and graphs; classes, one logit and values; `explanation_type="model"`, one number an edge."""
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
        x: torch.Tensor,
        edge_index: torch.Tensor,
        *,
        target: torch.Tensor,
        index: int | torch.Tensor | None = None,
        **kwargs: Any,
    ) -> PyGExplanation:
        """The edge mask of the nodes in `index`, or of all that changed."""
        if not isinstance(x, torch.Tensor):
            raise WrongKind(
                f"Expected one tensor of features (got {type(x).__name__}, of several node types); ask "
                "axiompath.Explainer(model, before, after) with two HeteroData, which names types and relations."
            )
        # PyG passes further arguments by name, and that is how the fields of `after` reach the model, too.
        after = Data(x=x, edge_index=edge_index, **kwargs)
        level, num_answers = self.model_config.task_level, x.shape[0]
        if level == ModelTaskLevel.edge:
            num_answers = kwargs["edge_label_index"].shape[1]
        elif level == ModelTaskLevel.graph:
            num_answers = 1 if kwargs.get("batch") is None else int(kwargs["batch"].max()) + 1
        several = target.numel() > num_answers  # PyG lays the answers of several labels in one row
        output = {ModelMode.multiclass_classification: CLASSES, ModelMode.regression: VALUE}.get(
            self.model_config.mode, LABELS if several else BINARY
        )
        explainer = Explainer(model, self.before, after, memory=self.memory, call=self.call, output=output)
        targets = explainer.moved().target.tolist()
        if index is not None:
            targets = torch.as_tensor(index).reshape(-1).tolist()
            if level == ModelTaskLevel.edge:
                pairs = node_numbers(after)[kwargs["edge_label_index"].cpu().numpy()].T.tolist()
                targets = [tuple(pairs[i]) for i in targets]
        engine, rows = explainer.session.locate(targets)
        explanations = list(engine.explain(rows, self.question, explainer.memory))
        mask, loops = torch.zeros(edge_index.shape[1]), torch.zeros(x.shape[0])
        lost: dict[tuple[int, int], float] = {}
        for explanation in explanations:
            placed = explanation.to_pyg()
            mask += placed.edge_mask.abs()
            loops += placed.loops.abs()
            for edge, share in placed.lost_edges.items():
                lost[edge] = lost.get(edge, 0.0) + abs(share)
        largest = (float(mask.max()) if len(mask) else 0.0) or 1.0
        explained = PyGExplanation(edge_mask=mask / largest, loops=loops / largest)
        explained.lost_edges = {edge: share / largest for edge, share in lost.items()}
        explained.explanations = explanations
        return explained
