"""(model, after, target) -> paths ranked by torch_geometric's GNNExplainer, which learns a mask over edges of `after`.

A path scores the sum of the masks of its edges. The mask is learnt on the target's computation graph, which gives the
same predictions as the whole graph, in the default settings of the algorithm but for the number of epochs.
"""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.utils import k_hop_subgraph

from axiompath.arrays import FloatArray, IntArray
from axiompath.baselines import best_by_edges
from axiompath.change.comparison import Change
from axiompath.files.sum_gnn import SumGNN
from axiompath.graphs.data_fields import to_torch_csr

EPOCHS = 100


def best_by_gnnexplainer(
    model: SumGNN, after: Data, change: Change, target: int, num_paths: int, label: int
) -> tuple[IntArray, FloatArray]:
    """The n paths [n, num_hops + 1] of `after` with the largest sums of edge masks, and these sums.

    The same for the same target. `label` is the class that the model predicts, which the mask is learnt to keep.
    """
    num_nodes = change.num_nodes
    nodes, edges, (place,), _ = k_hop_subgraph(
        target, len(model.convs), after.edge_index, relabel_nodes=True, num_nodes=num_nodes
    )
    x = to_torch_csr(change.after.x[nodes.numpy()], torch.float64).to_dense()
    explainer = Explainer(
        model,
        GNNExplainer(epochs=EPOCHS),
        explanation_type="model",
        edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )
    with torch.random.fork_rng():
        torch.manual_seed(target)
        mask = explainer(x, edges, index=int(place)).edge_mask.detach().numpy()
    senders, receivers = nodes[edges].numpy()
    keys = receivers * num_nodes + senders
    order = np.argsort(keys)
    return best_by_edges(change, target, num_paths, keys[order], mask[order].astype(np.float64))
