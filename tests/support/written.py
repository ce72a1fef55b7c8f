"""The records that 0.2.0 wrote."""

from pathlib import Path

import numpy as np

import axiompath

FOLDER = Path(__file__).parent.parent / "files" / "written_by_0_2"


KINDS = {
    "explanation": axiompath.Explanation,
    "edge-explanation": axiompath.Explanation,
    "blame": axiompath.Blame,
    "undo": axiompath.Undo,
    "enough": axiompath.Enough,
    "story": axiompath.Story,
}


OF_PATHS = {"by": "path", "layers": None, "directed": [], "logits_added": None, "logits_undone": None, "fewest": ""}
OF_EDGES = {"causes": {}, "hops": [], "groups": [], "edge_places": {}, "left_out": None, "directed": []}
NEW = {
    "explanation": {"left_out": None, **OF_PATHS},
    "edge-explanation": {**OF_EDGES, "format": "axiompath.explanation"},
    "blame": {"directed": [], "note": ""},
    "undo": {"directed": []},
    "enough": {"directed": []},
}  # fields since 0.2.0


RECORDS = [path for path in sorted(FOLDER.glob("*.json")) if path.stem != "scan"]


def updated(written):
    """A record of 0.2.0 as the present version writes it."""
    kind = written["format"].removeprefix("axiompath.")
    held = {**written, "version": KINDS[kind].form.version, **NEW.get(kind, {})}
    if kind == "edge-explanation":  # a record of its own then
        output, ends = axiompath.Explanation.from_dict(written).output, ("before", "after")
        held["paths"], held["num_paths"] = held.pop("edges"), held.pop("num_units")
        held |= {f"prob_{end}": output.means(np.array(held[f"logits_{end}"])).tolist() for end in ends}
        held["gap"] = held["kl_residual"] - held["kl_bound"]
    if kind == "story":
        held["explanations"] = [None if step is None else updated(step) for step in held["explanations"]]
    return held
