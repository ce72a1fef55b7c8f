"""Lists of events -> how well each network that `axiompath watch` tries does, beside naive rules, weights on and off.

    AXIOMPATH_DATA=... python -m research.experiments.watch_models

The first window of each list is what `watch` trains on. Links are ranked (AUC), labels are right or wrong (accuracy);
both on what neither training nor the choice of a network saw. Weights are the ratings of bitcoinotc, else how many
events a pair has. A row per network and rule; the network that was chosen on other data has a star.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pandas as pd

import axiompath
from axiompath.datasets import drifting_events
from axiompath.files.event_tables import read_node_table
from axiompath.sequences.label_features import LabelFeatures
from axiompath.sequences.training import train_classifier, train_linker, training_table
from research.datasets.archives import read_archive

LINK_FEATURES = ["constant", "codes"]


def events_of(name: str, root: Path) -> tuple[pd.DataFrame, dict[str, str] | None, dict[str, Any]]:
    """A list of events, labels where it has some, and the windows."""
    if name == "drifting":
        log, labels = drifting_events()
        return log, labels, {"every": "30D", "window": "60D", "rule": "count"}
    held = read_archive(root / f"{name}.npz", name)
    ends = ("source", "target") if name == "icews14" else ("edge_src", "edge_dst")
    log = pd.DataFrame({"source": [f"n{i}" for i in held[ends[0]]], "target": [f"n{i}" for i in held[ends[1]]]})
    if name == "bitcoinotc":
        log["time"] = pd.to_datetime(held["edge_time"], unit="s")
        return log.assign(weight=held["edge_weight"]), None, {"every": "180D", "window": "540D", "weight": "weight"}
    if name == "icews14":
        log["time"] = pd.Timestamp("2014-01-01") + pd.to_timedelta(held["time"].astype(int), unit="h")
        return log, None, {"every": "30D", "window": "60D", "rule": "count"}
    log["time"] = held["edge_time"]
    labels = {f"n{i}": f"area {label}" for i, label in enumerate(held["y"].tolist())}
    return log, labels, {"every": 4, "window": 8, "rule": "count"}


def judge(name: str, root: Path) -> pd.DataFrame:
    """A row per network and rule on the first window of a list."""
    log, labels, windows = events_of(name, root)
    features = LINK_FEATURES if labels is None else [LabelFeatures(read_node_table(labels, features=False))]
    first = axiompath.snapshots(log, nodes=labels, features=features, **windows)[0]
    found = (
        train_linker(first)
        if labels is None
        else train_classifier(first, tuple(sorted(set(labels.values()))), clues=True)
    )
    measure = "AUC" if labels is None else "accuracy"
    rows = [
        {"data": name, "measure": measure, "network or rule": who + " *" * (who == found.facts["network"]),
         "chosen by": chosen, "judged by": score}
        for who, chosen, score in training_table(found.facts)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def main() -> None:
    """Print the table."""
    root = Path(os.environ["AXIOMPATH_DATA"])
    for name in ("bitcoinotc", "icews14", "dblp_coauthor", "drifting"):
        print(judge(name, root).to_string(index=False, na_rep="", float_format="{:.3f}".format), flush=True)


if __name__ == "__main__":
    main()
