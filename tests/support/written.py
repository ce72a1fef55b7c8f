"""The records that 0.2.0 wrote."""

from pathlib import Path

import axiompath

FOLDER = Path(__file__).parent.parent / "files" / "written_by_0_2"


KINDS = {
    "explanation": axiompath.Explanation,
    "edge-explanation": axiompath.EdgeExplanation,
    "blame": axiompath.Blame,
    "undo": axiompath.Undo,
    "enough": axiompath.Enough,
    "story": axiompath.Story,
}


NEW = {
    "explanation": {"left_out": None},
    "blame": {"directed": [], "note": ""},
    "undo": {"directed": []},
    "enough": {"directed": []},
}  # fields since 0.2.0


RECORDS = [path for path in sorted(FOLDER.glob("*.json")) if path.stem != "scan"]


def updated(written):
    """A record of 0.2.0 as the present version writes it."""
    kind = written["format"].removeprefix("axiompath.")
    held = {**written, "version": KINDS[kind].form.version, **NEW.get(kind, {})}
    if kind == "story":
        held["explanations"] = [None if step is None else updated(step) for step in held["explanations"]]
    return held
