"""A folder with one table per node type and one per relation -> HeteroData; several -> the same, matched by name.

    nodes.author.csv                a node table, as tables.py has it, for each type
    edges.author.writes.paper.csv   an edge list for each relation, by type of source, name and type of target

CSV, TSV or Parquet. Nodes are called by the names in their table, each type by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import HeteroData

from ..errors import InputError
from ..storage.safe import TEXT_BYTES, bound_together, check_file, check_size, read_words
from .tables import SUFFIXES, edge_fields, find_ends, read_classes, read_edges, read_nodes

MAX_TYPES = 300  # of nodes and edges together


def is_typed_folder(folder: Path) -> bool:
    """Whether a folder holds the node table of a type."""
    return any(_tables(folder, "nodes", 1))


def read_typed_folder(folder: Path, max_bytes: float) -> tuple[HeteroData, tuple[str, ...]]:
    """The graph, and the names of classes where the labels of one type are words."""
    data, names_of = HeteroData(), {}
    class_names: tuple[str, ...] = ()
    tables, found = _tables(folder, "nodes", 1), _tables(folder, "edges", 3)
    _check_number(len(tables) + len(found), folder)
    for _, path in (*tables, *found):
        check_file(path)
    limit, size = bound_together([path for _, path in (*tables, *found)], max_bytes), 0.0
    for (kind,), path in tables:
        names, x, labels = read_nodes(path, limit - size)
        size += x.nbytes + TEXT_BYTES * len(names)
        check_size(folder, size, limit)
        data[kind].x = torch.from_numpy(x.astype(np.float32))
        data[kind].name = names
        names_of[kind] = names
        if labels is not None:
            data[kind].y, words = read_classes(labels)
            class_names = words or class_names
    if not found:
        raise InputError(
            f"Expected an edge list of each relation in {folder}, such as edges.author.writes.paper.csv (found none)."
        )
    for (source, name, target), path in found:
        for kind in (source, target):
            if kind not in names_of:
                raise InputError(
                    f"Expected a table nodes.{kind}.csv in {folder}, which {path.name} needs (found none)."
                )
        edges = read_edges(path, limit - size)
        sides = ("source", source), ("target", target)
        ends = [find_ends(edges, side, names_of[kind], f"nodes.{kind}", path) for side, kind in sides]
        data[source, name, target].edge_index = torch.from_numpy(np.stack(ends))
        size += 3 * data[source, name, target].edge_index.nbytes
        for key, values in edge_fields(edges).items():
            data[source, name, target][key] = values
            size += 3 * values.nbytes
        check_size(folder, size, limit)
    return data, class_names


def read_typed_values(nodes: dict[Any, Any], edges: dict[Any, Any], path: Path) -> HeteroData:
    """The HeteroData that the stores of a file make: features and edges, names and numbers, and no more."""
    data = HeteroData()
    _check_number(len(nodes) + len(edges), path)
    if not all(type(kind) is str for kind in nodes) or not all(_is_relation(key) for key in edges):
        raise InputError(
            f"Expected words as types and three words as relations of the HeteroData in {path} (got others)."
        )
    for kind, store in nodes.items():
        for key in ("x", "n_id", "y", "batch"):
            if store.get(key) is not None:
                data[kind][key] = _tensor(store[key], f"{kind}.{key}", path)
        if store.get("name") is not None:
            names = read_words(store["name"], "name")
            if len(names) != data[kind].num_nodes or len(set(names)) < len(names):
                raise InputError(
                    f"Expected a name for each node of the type {kind!r} in {path}, every name once (got {len(names)} "
                    f"names, {len(set(names))} of them different)."
                )
            data[kind].name = list(names)
    for relation, store in edges.items():
        for key in ("edge_index", "edge_weight", "edge_attr", "edge_label_index"):
            if store.get(key) is not None:
                data[relation][key] = _tensor(store[key], f"{relation}.{key}", path)
    return data


def match_types(graphs: Sequence[HeteroData]) -> list[HeteroData]:
    """The graphs with `n_id` by name, of every type whose nodes all of them name and none numbers."""
    found = [data.clone() for data in graphs]
    for kind in set.intersection(*(set(data.node_types) for data in graphs)):
        named = [data[kind].get("name") for data in graphs]
        if any(names is None for names in named) or any(data[kind].get("n_id") is not None for data in graphs):
            continue
        numbers = {name: i for i, name in enumerate(dict.fromkeys(name for names in named for name in names))}
        for data, names in zip(found, named, strict=True):
            data[kind].n_id = torch.tensor([numbers[name] for name in names], dtype=torch.long)
    return found


def _check_number(count: int, path: Path) -> None:
    """Each type and relation takes time of its own, also where it has no nodes and no edges."""
    if count > MAX_TYPES:
        raise InputError(f"Expected at most {MAX_TYPES} types and relations in {path} (got {count:,}).")


def _is_relation(key: Any) -> bool:
    return type(key) is tuple and len(key) == 3 and all(type(word) is str for word in key)


def _tensor(value: Any, key: str, path: Path) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        raise InputError(f"Expected a tensor in `{key}` of {path} (got {type(value).__name__}).")
    return value


def _tables(folder: Path, stem: str, num_words: int) -> list[tuple[tuple[str, ...], Path]]:
    """Tables stem.a.csv, or stem.a.b.c.csv, by their words."""
    found = []
    for path in sorted(folder.iterdir()):
        words = path.name.removesuffix(path.suffix).split(".")
        if path.suffix in SUFFIXES and words[0] == stem and len(words) == num_words + 1 and all(words):
            found.append((tuple(words[1:]), path))
    return found
