"""Chosen paths, or edges, + what is known of them -> Explanations, in the user's numbers.

Numbers are computed for all targets of a batch at once; a record keeps nothing of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from .retrained import measure

OF_A_CHOICE = ("budget", "num_paths", "kl_residual", "kl_bound", "status", "groups")  # fields of both
Columns = Mapping[str, Sequence[Any] | np.ndarray[Any, Any]]  # field of an Explanation -> what each has in it


def explain_choices(change: Change, choices: Choices, question: Question, caption: Caption) -> list[Explanation]:
    """An Explanation of each choice; replays all of them at once, both ways."""
    rows, chosen, causes = choices.rows, choices.chosen, choices.causes
    moved = change.logits_after[rows] - change.logits_before[rows]
    columns = {
        **{name: getattr(choices, name) for name in OF_A_CHOICE},
        **measure(change, rows, chosen.owner, chosen.paths),
        "completeness": np.abs(causes.sum(axis=1) - moved).max(axis=1),
        "causes": name_causes(causes),
        "left_out": [None if np.isnan(sums).any() else tuple(sums) for sums in choices.left_out.tolist()],
    }
    hops = hops_of(max(change.by_model[::-1], key=lambda one: one.network.num_positions).network)
    numbered = replace(chosen, paths=change.numbers(chosen.paths))
    return make_explanations(change, rows, numbered, question, caption, columns, hops=hops)


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
        found.append(
            Explanation(
                **common,
                **each,
                target=target,
                unit=change.unit,
                output=output,
                paths=own.paths.copy(),
                contributions=own.contributions.copy(),
                # What `exact` searched with are the weights of a relaxation; what it chose are whole paths.
                weights=np.ones(len(own.paths)) if question.method == "exact" else own.weights.copy(),
                kinds=own.kind_names,
                node_names={node: names[node] for node in sorted(mentioned) if node in names},
                relations=() if relations is None else relations.of(steps),
                edge_places=edges,
            )
        )
    return found


def _plain(value: Any) -> Any:
    """An item of a column that keeps nothing of the others."""
    return value.item() if isinstance(value, np.generic) else value.copy() if isinstance(value, np.ndarray) else value
