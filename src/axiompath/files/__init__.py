"""Files that users have -> graphs and models; only tensors, numbers and text are ever loaded, and no file runs code.

npz.py           .npz -> arrays, without pickle
tensors.py       .pt -> plain values and tensors, without an unpickler
tables.py        CSV or Parquet, an edge list and a node table -> GraphFile
graph_file.py    path -> GraphFile: a graph with the names of its nodes and classes; several matched
typed_folder.py  one table per node type, one per relation -> HeteroData; several matched
event_tables.py  events and nodes, in a file or in memory -> Events, KnownNodes
graph_lists.py   graphs in a list -> Snapshots
snapshots.py     events or graphs -> Snapshots, to and from a folder of graphs
folder.py        a folder that a long run fills and a second run completes: lock, digests, what is foreign
conversion.py    edge list + nodes, however large -> a stored graph
order.py         batches of edges -> edges sorted by receiver, on disk, in bounded memory
sum_gnn.py       the paper's network, which a model's folder may name
small_gnns.py    the small networks that a watch trains, likewise
model_folder.py  folder with model.json and weights.safetensors <-> torch module; `package.module:function` -> the same
"""

from .conversion import convert_graph
from .graph_file import GraphFile, match_graphs, read_graph, save_graph
from .model_folder import load_model, read_model, save_model

__all__ = [
    "GraphFile",
    "convert_graph",
    "load_model",
    "match_graphs",
    "read_graph",
    "read_model",
    "save_graph",
    "save_model",
]
