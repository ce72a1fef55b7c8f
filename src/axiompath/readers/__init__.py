"""torch module + snapshots -> Network.

tape.py               every torch call on the features as a step: Recorder, Recording
arguments.py          how the model is called on a graph: arguments of forward by the names of its fields
provision.py          the graphs with what they lack for that: pairs, the numbers of their graphs
packed.py             the same for a model of several snapshots or edge sets, packed in one graph
trial.py              runs a copy of the model once on real data, recorded
forms.py              an affine expression in values already computed: Form
bases.py              the values that the Network will hold, as they are found
calls.py              what a reader of a module is given; the table of readers, and register_reader
convolutions.py       one small function a convolution of one hop
propagation.py        the same for convolutions of several hops
attention_layers.py   the same for attention
edge_messages.py      the same for messages made on their edges
points.py             the same for messages that heed where both ends lie
everywhere.py         the same for what joins nodes without an edge between them
aggregations.py       what a convolution makes of its messages, whatever they are
gates.py              the same for what multiplies features
typed_layers.py       the same for convolutions with relations
norms.py              normalisation, as a module or a function
elementwise.py        activations and dropout, by the function's name
functions.py          one small function a torch function that is affine; a table by name
recognised.py         coefficients recorded by traced/ -> the rules of structure that give them
scores.py             the same for shares of a softmax over neighbours
refusals.py           modules that cannot be read, and why
columns.py            what the columns of the output mean, by the model's last operation
layout.py             bases -> layers
assembly.py           Recording -> forms -> bases -> Network
reader.py             the whole way in, and the check that the Network computes what the model computes
verdict.py            the same for one graph, as a table that never raises: ModelCheck
"""

from .arguments import AS_IT_IS, ModelCall, Usage
from .calls import Call, register_reader
from .provision import asks_for_places, prepare_inputs
from .reader import ReadModel, read_network, read_samples
from .tape import UnreadableModel
from .verdict import ModelCheck, check

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
