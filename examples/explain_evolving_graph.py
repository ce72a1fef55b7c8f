"""Explain why a GCN's predictions on Cora changed after citations came and went, with PyG's own Explainer.

Run it as it is: `python examples/explain_evolving_graph.py`. Cora is downloaded once, into `data/`. With `--karate` it
explains the karate club instead and downloads nothing.
"""

import sys

import torch
import torch.nn.functional as F
from torch_geometric.datasets import KarateClub, Planetoid
from torch_geometric.explain import Explainer, unfaithfulness
from torch_geometric.nn import GCNConv

import axiompath
from axiompath.datasets import evolve

torch.manual_seed(0)
dataset = KarateClub() if "--karate" in sys.argv else Planetoid("data", name="Cora")
before = dataset[0]


class GCN(torch.nn.Module):
    """Two layers, as in PyG's examples."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = GCNConv(dataset.num_features, 16)
        self.conv2 = GCNConv(16, dataset.num_classes)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        """Logits of every paper."""
        x = F.relu(self.conv1(x, edge_index))
        x = F.dropout(x, training=self.training)
        return self.conv2(x, edge_index)


model = GCN()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
for _epoch in range(1, 201):
    model.train()
    optimizer.zero_grad()
    out = model(before.x, before.edge_index)
    loss = F.cross_entropy(out[before.train_mask], before.y[before.train_mask])
    loss.backward()
    optimizer.step()
model.eval()

# The graph changes: five in a hundred citations go, and as many come.
after = evolve(before, added=before.num_edges // 40, removed=before.num_edges // 40, seed=0)

# Which predictions changed, and which changes of the graph did it?
changed = axiompath.Explainer(model, before, after)
moved = changed.moved()  # largest change first
flipped = moved[moved.class_before != moved.class_after]
target = int((flipped if len(flipped) else moved).target.iloc[0])
print(changed.blame(target).summary())
if len(flipped):
    print(changed.undo(target).summary())

# The same question through PyG's Explainer, for code that uses it already.
explainer = Explainer(
    model=model,
    algorithm=axiompath.pyg.PyGAlgorithm(before, budget=10),
    explanation_type="model",
    edge_mask_type="object",
    model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
)
explanation = explainer(after.x, after.edge_index, index=target)
print(f"Generated explanations in {explanation.available_explanations}")
print(f"unfaithfulness: {unfaithfulness(explainer, explanation):.3f}")

path = "subgraph.png"
explanation.visualize_graph(path, backend="networkx")
print(f"Subgraph visualization plot has been saved to '{path}'")
