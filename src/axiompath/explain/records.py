"""Chosen paths, or edges, + what is known of them -> Explanations, in the user's numbers.

Numbers are computed for all targets of a batch at once; a record keeps nothing of the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

import numpy as np

from ..arrays import IntArray
from ..change.comparison import Change
from ..change.states import name_causes
from ..paths.table import PathTable
from .choices import Choices
from .explanation import Caption, Explanation
from .hops import hops_of
from .question import Question
from .remains import wholes_of
from .replay import own_paths, replay_both
from .retrained import measure

Columns = Mapping[str, Any]  # field of an Explanation -> what each of several has in it


def explain_choices(change: Change, choices: Choices, question: Question, caption: Caption) -> list[Explanation]:
    """An Explanation of each choice of paths; replays all of them at once, both ways."""
    rows, chosen, causes = choices.rows, choices.chosen, choices.causes
    replays = []
    for one in change.by_model:  # paths that are none of a model's own do nothing there
        own, places = own_paths(one, chosen.paths, altered=True) if change.earlier else (chosen.paths, slice(None))
        replays.append(replay_both(one, rows, chosen.owner[places], own))
    moved = change.logits_after[rows] - change.logits_before[rows]
    columns = {
        **columns_of(change, choices, question),
        **measure(change, rows, replays),
        "completeness": np.abs(causes.sum(axis=1) - moved).max(axis=1),
        "causes": name_causes(causes),
        "groups": choices.groups,
    }
    hops = hops_of(max(change.by_model[::-1], key=lambda one: one.network.num_positions).network)
    numbered = replace(chosen, paths=change.numbers(chosen.paths))
    return make_explanations(change, rows, numbered, question, caption, columns, hops=hops)


def columns_of(change: Change, choices: Choices, question: Question, what: str = "paths") -> dict[str, Any]:
    """How good the choices are, with a sentence on fewer where the fewest were asked for."""
    wholes = wholes_of(change, choices.rows, question.objective).tolist()
    shares = map(change.output.explained, wholes, choices.kl_residual.tolist())
    reached = zip(choices.fewest, choices.chosen.lengths.tolist(), shares, strict=True)
    return {
        **{name: getattr(choices, name) for name in ("budget", "num_paths", "kl_residual", "kl_bound")},
        "status": choices.status + [question.describe_fewest(*one, what) for one in reached],
        "left_out": [None if np.isnan(sums).any() else tuple(sums) for sums in choices.left_out.tolist()],
    }


def make_explanations(
    change: Change,
    rows: IntArray,
    chosen: PathTable,
    question: Question,
    caption: Caption,
    columns: Columns,
    **common: Any,
) -> list[Explanation]:
    """One per target: `chosen` in the user's numbers, most important first, and the fields that depend on the choice.

    `columns` are fields with a value for each target, `common` those with one for all.
    """
    output = change.output
    before, after = (logits[rows] for logits in (change.logits_before, change.logits_after))
    class_before, class_after = output.label_pairs(before, after)
    columns = {
        "class_before": class_before,
        "class_after": class_after,
        "prob_before": output.means(before),
        "prob_after": output.means(after),
        "logits_before": before,
        "logits_after": after,
        "kl": output.divergence(after, before),
        "gap": np.subtract(columns["kl_residual"], columns["kl_bound"]),
        **columns,
    }
    common |= {"unit": change.unit, "output": output}
    common |= {name: getattr(question, name) for name in ("method", "objective", "until")}
    common |= {name: getattr(caption, name) for name in ("class_names", "origin", "graph", "graph_before")}
    found = []
    for i, row in enumerate(rows.tolist()):
        own, each = chosen.one(i), {name: _plain(column[i]) for name, column in columns.items()}
        target = change.target(row)
        paths = [own.paths, *(group.paths for group in each.get("groups", ()))]
        edges = change.edges_on(np.concatenate([part.ravel() for part in paths]))
        walked = [path for part in paths for path in part.tolist()]
        mentioned = {*chain(*walked), *chain(*(edge[:2] for edge in edges.values()))}
        mentioned |= set() if change.of_graphs else {*np.atleast_1d(target).tolist()}
        names, relations = caption.node_names, caption.relations
        steps = ((u, v) for path in walked for u, v in pairwise(path) if u >= 0 and u != v)
        record = {
            "target": target,
            "paths": own.paths.copy(),
            "contributions": own.contributions.copy(),
            # What `exact` searched with are the weights of a relaxation; what it chose are whole paths.
            "weights": np.ones(len(own.paths)) if question.method == "exact" else own.weights.copy(),
            "kinds": own.kind_names,
            "node_names": {node: names[node] for node in sorted(mentioned) if node in names},
            "relations": () if relations is None else relations.of(steps),
            "edge_places": edges,
        }
        found.append(Explanation(**common | record | each))
    return found


def _plain(value: Any) -> Any:
    """An item of a column that keeps nothing of the others."""
    return value.item() if isinstance(value, np.generic) else value.copy() if isinstance(value, np.ndarray) else value
