"""torch module + snapshots -> Network: the model runs on each graph, and what it computed is read from its operations.

arguments.py     how the model is called on a graph: arguments of forward by the names of its fields
provision.py     the graphs with what they lack for that: pairs, the numbers of their graphs
matrices.py      the same for a model of a matrix instead of edges
typed.py         the same for a model of several node types
packed.py        the same for a model of several snapshots or edge sets, packed in one graph
unrolled.py      a cell that takes one step -> a model of a window
run.py           a copy of the model + one graph -> its answer; why it fails
trace.py         one run -> the tensor operations that it made: Trace
opened.py        operations that are recorded as the smaller ones they are made of
recording.py     a copy of the model + one graph -> Trace, of steps and types, too
rows.py          which rows of two recordings are the same node, message, graph or pair: Axis, Recorded
forms.py         an affine expression in values already computed: Form
bases.py         the values that the Network will hold, as they are found
values.py        a form on rows, and where its numbers stand in the model's tensor: Value
reader.py        reads two traces backwards from the output: Reader, Step
functions.py     name of a tensor operation -> how it is read
columns.py       operations within rows: element-wise affine ones, views, sums, linear maps
crossing.py      operations that lead to other rows: gather, scatter, products with a matrix
factors.py       features times features: a coefficient, or a product
statistics.py    norms over the nodes of a graph
largest.py       the largest of columns or rows
elementwise.py   element-wise functions -> activations
registered.py    modules that a reader of the user's own describes
calls.py         what such a reader is given, and how it is registered
output.py        the logits, and what their columns mean
layout.py        bases -> layers
recognised.py    recorded coefficients -> the rules of structure that give them
scores.py        the same for shares of a softmax over neighbours
assemble.py      two traces -> Network, checked against the model
model.py         the whole way in
model_check.py   the same for one graph, as a table that never raises: ModelCheck
"""

from .arguments import AS_IT_IS, ModelCall, Usage
from .assemble import ReadModel
from .calls import Call, register_reader
from .model import read_network, read_samples
from .model_check import ModelCheck, check
from .provision import asks_for_places, prepare_inputs
from .refusals import UnreadableModel

__all__ = [
    "AS_IT_IS",
    "Call",
    "ModelCall",
    "ModelCheck",
    "ReadModel",
    "UnreadableModel",
    "Usage",
    "asks_for_places",
    "check",
    "prepare_inputs",
    "read_network",
    "read_samples",
    "register_reader",
]
