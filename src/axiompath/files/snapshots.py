"""Events, or graphs in a list -> Snapshots; and Snapshots to and from a folder: snapshots.json and one .npz each."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from torch_geometric.data import Data

from ..errors import InputError
from ..graphs.clock import is_worded, show_time
from ..graphs.sequence import KnownNodes, Recipe, Snapshots, make_snapshots
from ..graphs.windows import MAX_SNAPSHOTS, cut_windows, keep_relations
from ..storage.codec import Count, FileForm, Shape, Text, decode, require
from ..storage.safe import MAX_BYTES, SHAPE_ERRORS, Damaged, blamed, bound_together, read_json
from ..storage.writing import file_digest, write_text
from .event_tables import Columns, read_event_table, read_node_table
from .folder import ResumableFolder
from .graph_file import check_together, read_graph, save_graph
from .graph_lists import is_graph_list, snapshots_of_graphs

SNAPSHOTS, SNAPSHOTS_FORM = "snapshots.json", FileForm("snapshots", 1, remedy="make them again")
UNFINISHED, DIGESTS = "unfinished", "sha256"


def snapshots(
    events: Any,
    every: Any = None,
    window: Any = None,
    *,
    src: Any = None,
    dst: Any = None,
    time: Any = None,
    weight: Any = None,
    relation: Any = None,
    end: Any = None,
    most_relations: int | None = None,
    rule: str | None = None,
    nodes: Any = None,
    features: Any = None,
    directed: bool | None = None,
    keep: str = "seen",
    loops: bool = False,
    start: Any = None,
    until: Any = None,
    max_bytes: float = MAX_BYTES,
) -> Snapshots:
    """Graphs in order of time, cut from dated events: one per `every`, each from the events of the last `window`.

    events: a CSV (also .gz, parted by ; or |), TSV or Parquet file, a DataFrame or Arrow table, a list of rows
        (source, target, time), a TemporalData, a networkx graph with times on its edges; or a list of graphs, one
        per snapshot (Data, networkx, scipy matrices, edge lists), without times; or a folder written by
        `save_snapshots`.
    every, window: "30D" or "12h" if times are dates, else numbers; window="all" keeps everything so far. By
        default, a step is about a twelfth of the time covered and a window three steps.
    src, dst, time, weight: the columns; the first three are found by common names if omitted.
    relation: the column with the kind of event: edges then have types, `edge_type`, one edge per pair and relation;
        `most_relations` keeps that many, the most common in the first window, and one for all others.
    end: the column with the time at which an edge ended, empty if it has not. Without it an edge can only expire,
        when its last event is older than the window.
    rule: how the events of a pair make one edge: once (no weight), count, sum, mean, min, max, first or last.
        Default: once, or sum if there is a `weight`.
    nodes: a table with a column `id`, optionally `label`, and a numeric feature in every other column.
    features: features to generate: degrees, constant, codes, one-hot, a function of a Moment, or several of these.
        Default: those of `nodes`, else degrees.
    keep: the nodes of a snapshot: those seen so far, those active in its `window`, or all.
    loops: whether events of a node with itself make an edge. Windows begin at `start`, by default at the first
        event. A window is made once events reach its end, or if `until` states that they are complete up to there.
    """
    if isinstance(events, (str, os.PathLike)) and is_snapshots(Path(events)):
        return read_snapshots(Path(events), max_bytes=max_bytes)
    table = None if nodes is None else read_node_table(nodes, max_bytes, features=features is None)
    if table is not None and features is not None:
        table = table._replace(x=None)
    how = Recipe(rule or ("once" if weight is None else "sum"), bool(directed), keep, features or "degrees")
    if is_graph_list(events):
        periods = {"every": every, "window": window, "time": time, "start": start, "until": until}
        for name, value in (periods | {"relation": relation, "end": end}).items():
            if value is not None:
                raise InputError(f"Expected no `{name}` with a list of graphs, one per snapshot (got {value!r}).")
        return snapshots_of_graphs(events, how, table, directed)
    columns, told = Columns(src, dst, time, weight, relation, end), (every, None if window == "all" else window)
    moments = [moment for moment in (start, until) if not is_worded(moment)]  # a date says nothing of numbers
    read = read_event_table(events, columns, periods=[*told, *moments], loops=loops, max_bytes=max_bytes)
    windows = cut_windows(read, every, window, start, until)
    return make_snapshots(
        keep_relations(read, windows, most_relations), windows, how, table, _room(events, nodes, table, max_bytes)
    )


def _room(events: Any, nodes: Any, table: KnownNodes | None, max_bytes: float) -> float:
    """Bytes that all graphs may take: windows overlap and nodes stay, so a small file could make many large ones."""
    files = [Path(given) for given in (events, nodes) if isinstance(given, (str, os.PathLike))]
    has_features = table is not None and table.x is not None
    is_of_files = files and not (has_features and isinstance(nodes, KnownNodes))
    return bound_together(files, max_bytes) if is_of_files else max_bytes


def save_snapshots(found: Snapshots, folder: str | Path, *, kept: int = 0) -> Path:
    """Write a folder that `read_snapshots` and every command take; the first `kept` graphs are there already.

    Snapshots that were written there before are replaced; whatever else is there is never touched.
    """
    if len(found) > MAX_SNAPSHOTS:
        raise InputError(f"Expected at most {MAX_SNAPSHOTS:,} snapshots for a folder (got {len(found):,}).")
    place, files = (
        ResumableFolder(folder, "sequence of snapshots"),
        [f"{number:04d}.npz" for number in range(len(found))],
    )
    target, mine = place.path, _written_before(place)
    _check_free(place, {*files[kept:], *mine} - {*files[:kept]}, mine)
    with place.locked(SNAPSHOTS, *files):
        form = SNAPSHOTS_FORM.head
        # Whoever is stopped from here on leaves a folder that says so, and which names are its own.
        write_text(target / SNAPSHOTS, json.dumps(form | {UNFINISHED: sorted({*files, *mine})}))
        for file, data in zip(files[kept:], found.graphs[kept:], strict=True):
            save_graph(target / file, data, data.get("node_names"), data.get("class_names"))
        held = form | {
            "files": files, "names": list(found.names), "rule": found.rule,
            "bounds": [list(pair) for pair in found.bounds], "dated": found.dated, "waiting": found.waiting,
            DIGESTS: {file: file_digest(target / file) for file in files},
        }  # fmt: skip
        for old in sorted({*mine} - {*files}):
            (target / old).unlink(missing_ok=True)
        write_text(target / SNAPSHOTS, json.dumps(held, indent=1))
    return target


def _written_before(place: ResumableFolder) -> dict[str, str | None]:
    """The graphs that `save_snapshots` wrote into a folder, each with its digest where that is known."""
    folder = place.path
    if not is_snapshots(folder):
        if os.path.lexists(folder) and not (folder.is_dir() and place.is_free()):
            raise InputError(f"Expected an empty folder, or one of snapshots (got {folder}); choose another.")
        return {}
    path = folder / SNAPSHOTS
    held = _read_form(path)
    with blamed(f"Expected the names of graphs in {path} (got something else); choose another folder.", *SHAPE_ERRORS):
        digests, names = held.get(DIGESTS, {}), held.get(UNFINISHED) or held["files"]
        listed = isinstance(names, list) and all(re.fullmatch(r"[0-9]{4,9}\.npz", name) for name in names)
        if path.is_symlink() or not listed:
            raise Damaged("other names than are written")
        return {name: digests.get(name) for name in names}


def _check_free(place: ResumableFolder, names: Collection[str], mine: Mapping[str, str | None]) -> None:
    """Refuse a folder in which one of these names is taken by something else; nothing is touched."""
    there = [name for name in sorted(names) if os.path.lexists(place.path / name)]
    place.refuse(place.foreign(there) + [name for name in there if not _is_ours(place, name, mine)])


def _is_ours(place: ResumableFolder, name: str, mine: Mapping[str, str | None]) -> bool:
    """Whether a graph was written here, and is as it was where that is known."""
    if name not in mine:
        return False
    digest = mine[name]
    return digest is None or place.holds(name, digest)


def is_snapshots(folder: str | Path) -> bool:
    """Whether a path is such a folder."""
    return os.path.isfile(Path(folder) / SNAPSHOTS)


def read_snapshots(folder: str | Path, *, max_bytes: float = MAX_BYTES) -> Snapshots:
    """What `save_snapshots` wrote."""
    source, held = Path(folder), read_held(Path(folder))
    check_together([source / file for file in held.files], max_bytes)
    graphs = [named_data(source / file, max_bytes) for file in held.files]
    with blamed(
        f"Expected the bounds of windows in {source / SNAPSHOTS} (got something else).", *SHAPE_ERRORS, OverflowError
    ):
        for moment in (moment for pair in held.bounds for moment in pair):
            show_time(moment, held.dated)
    return Snapshots(tuple(graphs), held.names, held.rule, held.bounds, held.dated, held.waiting)


@dataclass(frozen=True)
class SnapshotList:
    """What snapshots.json says of the graphs beside it."""

    partial: ClassVar = True

    files: Annotated[tuple[Text, ...], Shape("graphs")]
    names: Annotated[tuple[Text, ...], Shape("graphs")]
    rule: Text
    bounds: tuple[tuple[int | float, int | float], ...]
    dated: bool
    waiting: Count
    sha256: dict[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Every file lies in the folder, and windows are of graphs."""
        fits = all(file == f"{place:04d}.npz" for place, file in enumerate(self.files))
        require(fits, "`files` should be graphs called 0000.npz and so on")
        require(len(self.bounds) in (0, len(self.files)), "`bounds` should be a pair for each graph, or none")


def read_held(folder: Path) -> SnapshotList:
    """What the folder says of its graphs, checked: every file lies in it."""
    path = folder / SNAPSHOTS
    held = _read_form(path)
    if UNFINISHED in held:
        raise InputError(f"Expected snapshots that are whole in {folder} (writing them was stopped); make them again.")
    return decode(SnapshotList, held, f"a list of snapshots in {path}")


def _read_form(path: Path) -> dict[str, Any]:
    """What a file says that calls itself a list of snapshots."""
    held = SNAPSHOTS_FORM.open(read_json(path), f" in {path}")
    check_listed(path, held.get(UNFINISHED), held.get("files"))
    return held


def check_listed(path: Path, *lists: Any) -> None:
    """Refuse a file that lists more snapshots than are ever made."""
    longest = max((len(listed) for listed in lists if isinstance(listed, list)), default=0)
    if longest > MAX_SNAPSHOTS:
        raise InputError(f"Expected at most {MAX_SNAPSHOTS:,} snapshots in {path} (got {longest:,}).")


def named_data(path: Path, max_bytes: float = MAX_BYTES) -> Data:
    """A graph with the names of its nodes and classes as fields."""
    graph = read_graph(path, max_bytes=max_bytes)
    if not isinstance(graph.data, Data):
        raise InputError(f"Expected a graph in memory at {path} (got a stored one).")
    if not graph.numbered:
        raise InputError(f"Expected the numbers of its nodes, `n_id`, in {path} (got none); make the snapshots again.")
    if graph.row_names:
        graph.data.node_names = list(graph.row_names)
    if graph.class_names:
        graph.data.class_names = list(graph.class_names)
    return graph.data
