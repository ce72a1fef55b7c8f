"""A table of rows that whole numbers name -> Form: what it makes of a column is part of the leaf's value."""

from __future__ import annotations

import numpy as np
from torch import nn

from ..network.activations import lookup
from .calls import Call, array, register_reader
from .forms import Form


@register_reader(nn.Embedding)
def read_embedding(module: nn.Embedding, call: Call) -> Form:
    """The row of a table that a column of the features of nodes or edges names."""
    if call.x.width != 1 or not call.bases.is_given(call.x):
        call.refuse(
            "looks up rows by something else than one column of `x` or `edge_attr`, as it is; give every column that "
            "holds whole numbers an Embedding of its own, emb(x[:, 0]), or look the rows up before and put them in."
        )
    if module.max_norm is not None:
        call.refuse("max_norm changes its rows while it looks them up; train without it.")
    table = array(module.weight)
    rows: Form = call.activate(call.x @ np.ones((1, table.shape[1])), lookup(table)) + np.asarray(table[0])
    return rows
