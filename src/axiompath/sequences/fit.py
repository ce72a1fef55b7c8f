"""Batches + a loss + a judge -> a torch module trained by Adam, with the weights of the epoch that was judged best.

Seeded, so that equal data gives equal weights on one machine; they may differ in the last bits between processors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import nn

from ..arrays import IntArray

STEP_SIZE = 0.01


def fit(
    make: Callable[[], nn.Module],
    batches: Sequence[Any],
    loss_of: Callable[[nn.Module, Any], torch.Tensor],
    judge: Callable[[nn.Module], float],
    epochs: int,
    seed: int = 0,
    decay: float = 0.0,
) -> nn.Module:
    """In float64, so that what is trained is to the last bit what is explained; torch's own seed stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = make().double()
        adam = torch.optim.Adam(net.parameters(), STEP_SIZE, weight_decay=decay)
        best, kept = judge(net.eval()), deepcopy(net.state_dict())
        for _ in range(epochs):
            net.train()
            for data in batches:
                loss = loss_of(net, data)
                adam.zero_grad()
                torch.autograd.backward(loss)
                adam.step()
            found = judge(net.eval())
            if found > best:
                best, kept = found, deepcopy(net.state_dict())
    net.load_state_dict(kept)
    return net.eval()


def rank_auc(scores: Any, labels: IntArray) -> float:
    """Area under the ROC curve: the mean rank of those with label 1, ties sharing theirs."""
    _, place, count = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(count) - (count - 1) / 2)[place]
    yes = labels == 1
    return float((ranks[yes].mean() - (yes.sum() + 1) / 2) / (~yes).sum())
