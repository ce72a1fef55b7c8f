"""Models that are not read, and two graphs in memory -> OwnAnswers: they run as they are."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch.overrides import TorchFunctionMode
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing

from ..arrays import FloatArray, IntArray
from ..errors import InputError, WrongKind
from ..explain.edges import without_edges
from ..explain.engine import BEFORE_END
from ..explain.moved import describe_moves
from ..graphs.data_fields import EDGE, GRAPH, Fields, fields_of_edges, level_of
from ..graphs.labels import label_targets, target_column, with_class_names
from ..graphs.names import read_names
from ..graphs.pair import Pair, open_pair
from ..graphs.places import GRAPHS, LINKS, NODE_UNIT, UNIT_OF, Target
from ..graphs.snapshot import Snapshot, find_numbers
from ..graphs.targets import rows_of_places, with_graphs
from ..network.digests import digest_graph
from ..outputs import AUTO, BINARY, CLASSES, LABELS, OUTPUTS, VALUE, Output, scales_of
from ..readers import Usage, prepare_inputs
from ..readers.arguments import LINKS_FIELD
from ..readers.run import run_model
from ..readers.typed import prepare_types
from ..storage.origin import RELEASE, Origin, digest_of
from .engine import ModelEvaluator, SubsetEngine
from .own_model import OwnModel, numbers_of_rows
from .root import Root

SIGMOIDS = ("sigmoid", "logsigmoid", "log_sigmoid")
SHAPES = ("view", "reshape", "squeeze", "unsqueeze", "flatten", "contiguous")
EDGE_TYPES = "edge_type"
# Fields of their own meaning, whatever they hold.
CARRIED = ("x", "edge_index", "edge_weight", "n_id", "batch", "ptr", "graph_id", "num_nodes", "schema", LINKS_FIELD)
ROUNDING = 1e-5  # of the largest logit: what a float32 model may differ by where nothing changed


@dataclass(frozen=True, eq=False)
class OwnAnswers:
    """What one model, or the model before and the one after, answers on both graphs, without being read."""

    subsets: SubsetEngine  # the models on both graphs
    snapshots: tuple[Snapshot, Snapshot]  # with graphs as places where graphs are predicted
    ids: IntArray  # of what both graphs have
    ends: tuple[tuple[FloatArray, FloatArray], ...]  # logits of these before and after, [len(ids), c], of each model

    def root(self, target: Target) -> Root:
        """The nodes that a prediction is read off, and what each model predicts for it on both graphs."""
        nodes, new = self._find(target)
        place = np.flatnonzero((self.ids == np.asarray(target)).reshape(len(self.ids), -1).all(axis=1))[:1]
        ends = tuple((before[row], after[row]) for before, after in self.ends for row in place.tolist())
        return Root(target, nodes, new, ends)

    def _find(self, target: Target) -> tuple[IntArray, IntArray]:
        """Numbers of a target's nodes, and of those that only `after` has."""
        unit = self.subsets.unit
        if unit == UNIT_OF[GRAPHS]:
            places = [snapshot.places for snapshot in self.snapshots]
            assert places[0] is not None
            assert places[1] is not None
            row, known = find_numbers(places[0].ids, np.array([_number(target)]))
            both = places[0].present[row] & places[1].present[row]
            _refuse(target, bool((known & both).all()), "graph")
            members = np.flatnonzero((places[0].nodes == row) | (places[1].nodes == row))
            return members, np.zeros(0, dtype=np.int64)
        if (unit == UNIT_OF[LINKS]) != isinstance(target, tuple):
            raise WrongKind(f"Expected the target to be a {unit} (got {target!r}).")
        ids = np.atleast_1d(np.asarray(target, dtype=np.int64))
        rows, known = find_numbers(self.snapshots[0].node_ids, ids)
        _refuse(target, bool((known & self.snapshots[1].present[rows]).all()), "node")
        return rows, np.unique(rows[~self.snapshots[0].present[rows]])

    def moved(self, class_names: Sequence[str]) -> pd.DataFrame:
        """Those whose logits differ by more than rounding: target, name, classes, KL; largest KL first."""
        before, after, engine = self.ends[0][0], self.ends[-1][1], self.subsets
        return with_class_names(
            list_moves(engine.unit, engine.output, self.ids, before, after, engine.node_names), class_names
        )

    @cached_property
    def origin(self) -> Origin:
        """The models and both graphs, by their digests."""
        digests = dict(zip(("before", "after"), map(digest_graph, self.subsets.pair.graphs), strict=True))
        for name, one in zip(("model", "model before"), self.subsets.evaluators[::-1], strict=False):
            weights = one.own.model.state_dict().values()
            digests[name] = digest_of("own model", [value.detach().cpu().double().numpy() for value in weights])
        return Origin(RELEASE, digests)


@dataclass(frozen=True, eq=False)
class RunModel:
    """One model that was run on both graphs."""

    evaluator: ModelEvaluator
    pairs: IntArray | None  # that are predicted, in node numbers [num_pairs, 2]; None where it is not pairs
    answers: tuple[FloatArray, FloatArray]  # before they become logits
    node_names: dict[int, str]


def answer_unread(models: tuple[Any, ...], before: Any, after: Any, usage: Usage, node_names: Any) -> OwnAnswers:
    """Run each model once on both graphs, to see what it answers with."""
    run = [_run_on_both(model, before, after, usage, node_names) for model in models]
    last = run[-1]
    for one in run[:-1]:
        check_alike(one.evaluator, last.evaluator, (one.answers[0].shape[1], last.answers[0].shape[1]))
    engine = SubsetEngine(tuple(one.evaluator for one in run), last.node_names)
    snapshots = engine.pair.before.graph, engine.pair.after.graph
    if engine.unit == UNIT_OF[GRAPHS]:
        snapshots = with_graphs(*snapshots)
    ids, rows = _rows_of_answers(engine.unit, engine.pair, snapshots, last.pairs)
    ends = [
        [one.evaluator.own.before_end(answer)[row] for answer, row in zip(one.answers, rows, strict=True)]
        for one in run
    ]
    return OwnAnswers(engine, snapshots, ids, tuple((first, second) for first, second in ends))


def _run_on_both(model: Any, before: Any, after: Any, usage: Usage, node_names: Any) -> RunModel:
    ready = prepare_types(model, (before, after), usage, node_names)
    (before, after), usage = ready.graphs, ready.usage
    if before is None and isinstance(after, Data):
        before = without_edges(after)
    if not isinstance(before, Data) or not isinstance(after, Data):
        raise WrongKind(
            "Expected two torch_geometric.data.Data to go with paths=False "
            f"(got {type(before).__name__} and {type(after).__name__}); read stored graphs with axiompath.read_graph."
        )
    inputs = prepare_inputs(model, before, after, usage)
    graphs = inputs.before, inputs.after
    pair = open_pair(*graphs, _fields_of(*graphs))
    raw = OwnModel(model, usage.call, np.asarray)
    count = _count_hops(raw.duplicate)
    try:
        with _Ends() as operations:
            last = operations.of(run_model(raw.duplicate, inputs.before, usage.call))
    except (InputError, MemoryError):
        raise
    except Exception as error:
        raise InputError(
            f"The model could not be run on this graph: {type(error).__name__}: {error}; if it is called otherwise "
            "than model(x, edge_index), pass `call=lambda model, data: ...`."
        ) from error
    num_hops = count()
    answers = raw.answer(inputs.before), raw.answer(inputs.after)
    _check_followed(raw, *graphs, answers[0])
    unit = _unit_of(answers, graphs, inputs.pairs)
    output, before_end = _meaning(answers, usage, last)
    evaluator = ModelEvaluator(OwnModel(model, usage.call, before_end), pair, unit, output, None, num_hops)
    names = {}
    if ready.node_names is not None:
        names = read_names(ready.node_names, [pair.before.numbers, pair.after.numbers])
    return RunModel(evaluator, inputs.pairs, answers, names)


def _check_followed(own: OwnModel, before: Data, after: Data, answer: FloatArray) -> None:
    """Refuse a field that differs between the graphs and decides the answer, if no change of the graph carries it."""
    for key in [key for key in sorted(before.keys()) if key in after and not _is_followed(key, before, after)]:
        swapped = copy.copy(before)
        swapped[key] = after[key]
        try:
            found = own.answer(swapped)
            depends = found.shape != answer.shape or not np.array_equal(found, answer, equal_nan=True)
        except InputError:  # of another size, which a model that does not look at it would not notice
            depends = True
        if depends and np.array_equal(own.answer(before), answer, equal_nan=True):  # else it draws random numbers
            raise InputError(
                f"Expected the model to read the graph from `x`, `edge_index` and fields of edges (got one that reads "
                f"`{key}`, which differs between the graphs and cannot be divided among their changes); give both "
                "graphs the same, or build it from `edge_index` in `call`, as in `call=lambda model, data: "
                "model(data.x, to_dense_adj(data.edge_index, max_num_nodes=data.num_nodes)[0])`."
            )


def _is_followed(key: str, before: Data, after: Data) -> bool:
    """Whether a field is the same in both graphs, or one that changes of nodes and edges carry."""
    if key in CARRIED:
        return True
    old, new = before[key], after[key]
    if not isinstance(old, torch.Tensor) or not isinstance(new, torch.Tensor):
        return not isinstance(old, (int, float, str)) or bool(old == new)
    if old.layout == new.layout == torch.strided:
        matrix = all(value.shape == (data.num_nodes,) * 2 for value, data in ((old, before), (new, after)))
        if not matrix and level_of(before, key) != GRAPH:
            return True
        return old.shape == new.shape and torch.equal(old.cpu(), new.cpu())
    parts = [value.detach().cpu().to_sparse(layout=torch.sparse_coo).coalesce() for value in (old, new)]
    return old.shape == new.shape and all(
        torch.equal(*both) for both in zip(*((part.indices(), part.values()) for part in parts), strict=True)
    )


def check_alike(old: ModelEvaluator, new: ModelEvaluator, columns: tuple[int, int]) -> None:
    """Refuse a model before that predicts something else; `columns` are those of both answers, old first."""
    signatures = [(one.unit, one.output.kind, width) for one, width in zip((new, old), columns[::-1], strict=True)]
    if signatures[0] != signatures[1]:
        words = [f"{width} columns of {kind} for each {unit}" for unit, kind, width in signatures]
        raise InputError(f"Expected `model_before` to predict what the model does, {words[0]} (got {words[1]}).")


def _fields_of(before: Data, after: Data) -> Fields:
    """A model that is not read may look at the types of edges, wherever both graphs have them."""
    typed = all(
        isinstance(data.get(EDGE_TYPES), torch.Tensor)
        and not data[EDGE_TYPES].is_floating_point()
        and level_of(data, EDGE_TYPES) == EDGE
        for data in (before, after)
    )
    return replace(fields_of_edges(before, after), types=EDGE_TYPES if typed else None)


def _rows_of_answers(
    unit: str, pair: Pair, snapshots: tuple[Snapshot, Snapshot], pairs: IntArray | None
) -> tuple[IntArray, tuple[IntArray, IntArray]]:
    """What both graphs have of what is predicted: its numbers, and its row in the answer of each."""
    if pairs is not None:
        everywhere = np.arange(len(pairs))
        return pairs, (everywhere, everywhere)
    if unit == UNIT_OF[GRAPHS]:
        places = snapshots[0].places
        assert places is not None
        numbers, size = [rows_of_places(snapshot) for snapshot in snapshots], len(places.ids)
        ids = places.ids
    else:
        numbers, size = [numbers_of_rows(side) for side in (pair.before, pair.after)], pair.num_nodes
        ids = snapshots[0].node_ids
    found = np.full((2, size), -1)
    for row, here in zip(found, numbers, strict=True):
        row[here] = np.arange(len(here))
    shared = np.flatnonzero((found >= 0).all(axis=0))
    return ids[shared], (found[0, shared], found[1, shared])


def list_moves(
    unit: str, output: Output, ids: IntArray, before: FloatArray, after: FloatArray, names: Any
) -> pd.DataFrame:
    """Those whose logits differ by more than rounding, largest divergence first."""
    scale = ROUNDING * max(1.0, float(np.abs(before).max(initial=0.0)), float(np.abs(after).max(initial=0.0)))
    rows = np.flatnonzero(np.abs(after - before).max(axis=1, initial=0.0) > scale)
    targets, before, after = ids[rows], before[rows], after[rows]
    frame = pd.DataFrame(
        {
            "target": target_column(targets),
            "name": label_targets(targets, {} if unit == UNIT_OF[GRAPHS] else names),
            **describe_moves(output, before, after),
            "kl": output.divergence(after, before),
        }
    )
    return frame.sort_values("kl", ascending=False, kind="stable", ignore_index=True)


def _number(target: Target) -> int:
    if isinstance(target, tuple):
        raise WrongKind(f"Expected the target to be the number of a graph (got {target!r}).")
    return int(target)


def _refuse(target: Target, known: bool, unit: str) -> None:
    if not known:
        raise InputError(f"Expected a target that both graphs have, or `after` (got {unit} {target!r}).")


def _unit_of(answers: tuple[FloatArray, FloatArray], graphs: tuple[Data, Data], pairs: IntArray | None) -> str:
    """What the rows of the answers are of, by their number."""
    if pairs is not None:
        return UNIT_OF[LINKS]
    if all(len(answer) == data.x.shape[0] for answer, data in zip(answers, graphs, strict=True)):
        return NODE_UNIT
    if all(
        len(answer) == (1 if data.get("batch") is None else int(data.batch.max()) + 1)
        for answer, data in zip(answers, graphs, strict=True)
    ):
        return UNIT_OF[GRAPHS]
    raise InputError(
        f"Expected the model to answer with one row per node, graph or pair (got {len(answers[0])} rows for "
        f"{graphs[0].x.shape[0]} nodes)."
    )


def _meaning(
    answers: tuple[FloatArray, FloatArray], usage: Usage, last: str
) -> tuple[Output, Callable[[FloatArray], FloatArray]]:
    """What the columns mean, as the model's last operation or the user says; and how answers become logits."""
    kind, num_columns = usage.output, answers[0].shape[1]
    if kind not in (AUTO, *OUTPUTS):
        raise InputError(f"Expected `output` among {', '.join((AUTO, *OUTPUTS))} (got {kind!r}).")
    if kind == AUTO and last in SIGMOIDS:
        kind = BINARY if num_columns == 1 else LABELS
    if kind == AUTO and num_columns == 1:
        raise InputError(
            f'Expected to know what the one column of the model\'s output means; pass output="{BINARY}" or "{VALUE}".'
        )
    kind = CLASSES if kind == AUTO else kind
    if kind == VALUE:
        scales = scales_of(answers[0]) if usage.scales is None else np.asarray(usage.scales, dtype=np.float64)
        return Output(VALUE, scales.reshape(-1)), np.asarray
    return Output(kind), _log if last == "softmax" else BEFORE_END.get(last, np.asarray)


def _log(values: FloatArray) -> FloatArray:
    return np.log(np.maximum(values, np.finfo(np.float32).tiny))  # float32 rounds a small probability to 0


class _Ends(TorchFunctionMode):
    """Knows of every tensor which operation made it, whatever shape it was given since."""

    def __init__(self) -> None:
        super().__init__()
        self.made: dict[int, tuple[str, Any]] = {}  # with the tensor itself, so that its number stays its own

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor):
            name = getattr(function, "__name__", "")
            given = args[0] if args and isinstance(args[0], torch.Tensor) else None
            self.made[id(made)] = (self.of(given) if name in SHAPES and given is not None else name, made)
        return made

    def of(self, tensor: Any) -> str:
        """The operation's name; nothing where it is not known."""
        return self.made.get(id(tensor), ("", None))[0]


def _count_hops(duplicate: torch.nn.Module) -> Callable[[], int]:
    """How often a model has passed messages since; watched for good, in this copy of it."""
    counts = [0]

    def tick(*_: Any) -> None:
        counts[0] += 1

    for module in duplicate.modules():
        if isinstance(module, MessagePassing):
            module.register_propagate_forward_pre_hook(tick)
    return lambda: counts[0]
