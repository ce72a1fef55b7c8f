"""A watch's folder: watch.json, written whole after every step, as a WatchProgress; and Watch, what comes back.

Beside watch.json: pages, which say in their first lines who made them; scans and snapshots, which look after their own;
and a model, in a folder that was empty when the watch began.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeAlias

import numpy as np
import pandas as pd
from msgspec import Meta

from ..errors import InputError, MissingFile
from ..files.folder import ResumableFolder
from ..files.snapshots import check_listed, read_snapshots
from ..graphs.sequence import Snapshots
from ..scan.scan import Scan, read_scan
from ..storage.codec import FileForm, Mismatch, Text, decode, is_text, require
from ..storage.safe import read_json
from ..storage.writing import write_text
from .training import LINKS_TASK, NODES, describe_training, describe_warning

WATCH, WATCH_FORM = "watch.json", FileForm("watch", 1, remedy="choose another folder")
MODEL_FOLDER, SNAPSHOT_FOLDER, STEP_FOLDER, PAGE = "model", "snapshots", "steps", "report.html"
SETTINGS = ("every", "window", "start", "first", "rule", "task")  # text that every watch has
SHOWN_STEPS = 12
LARGEST = "Largest step (most flips)"
LIMIT = "This is about the model's answer, not about which answer is right."
MORE_THAN_ALL = 1.005  # of the change: events took some of it back
UNUSUAL_FLIPS = 10  # from which a step can be called unusual
MADE_BY = b'<meta name="generator" content="AxiomPath">'
FIRST_BYTES = 2000  # of a page, in which it says who made it
Share: TypeAlias = Annotated[float, Meta(ge=-1000, le=1000)]  # parts of one whole may cancel
Counted: TypeAlias = Annotated[int, Meta(ge=0, lt=2**40)]


@dataclass(frozen=True)
class WatchedStep:
    """What was found from one snapshot to the next."""

    partial: ClassVar[bool] = True  # watches of release 0.2 counted no expired edges

    before: Text
    after: Text
    edges_added: Counted
    edges_removed: Counted  # by an event
    num_predicted: Counted  # that both snapshots have: nodes, or pairs that were asked for
    num_moved: Counted
    num_flipped: Counted
    num_explained: Counted
    # Share of the labelled nodes of `after` that training never saw for which it is right.
    score: Annotated[float, Meta(ge=0, le=1)] | None
    edges_expired: Counted = 0  # their last event is older than the window
    num_reached: Counted = 0  # flips of which what did it is known
    by_time: Share = 0.0  # of what these moved by: the part that is due only to time
    moved_by: Annotated[float, Meta(ge=0, le=1e12)] = 0.0  # probability, or value, summed over predictions
    answer: Text = ""  # of the largest flip: what happened, what did it, what would undo it
    causes: Text = ""  # of all flips together, in a sentence
    is_tie: bool = False  # whether the largest flip was between two answers that are equally probable
    num_causes: Counted = 0  # statements that account for four fifths of what they moved by; 0 where ten do not

    @property
    def is_whole(self) -> bool:
        """Whether the time held for all flips."""
        return self.num_reached >= self.num_flipped

    @property
    def looked_at(self) -> str:
        """Which flips it held for."""
        return f"the {self.num_reached:,} of {self.num_flipped:,} flips that were examined"

    @property
    def due_to_time(self) -> str:
        """How much of its flips time did, and no event, without a full stop; and of which flips that is known."""
        share = "more than all" if self.by_time > MORE_THAN_ALL else f"{min(self.by_time, 1.0):.0%}"
        if self.is_whole:
            return f"{share[0].upper()}{share[1:]} of the change of its flips is due only to time"
        return f"Of {self.looked_at}, {share} of the change is due only to time"


@dataclass(frozen=True)
class WatchProgress:
    """The steps done so far, and their settings."""

    settings: dict[str, Any]
    facts: dict[str, Any]
    seen: tuple[Counted, ...]  # nodes that training saw
    digests: tuple[Text, ...]  # of the snapshots
    steps: tuple[WatchedStep, ...] = ()

    def save(self, folder: Path) -> None:
        """Write watch.json, atomically."""
        write_text(folder / WATCH, json.dumps(WATCH_FORM.head | asdict(self), indent=1))

    def check(self) -> None:
        """The settings and facts that a summary needs are present."""
        words = [*((self.settings.get(name), name) for name in SETTINGS), (self.facts.get("task"), "task")]
        for word, name in words:
            require(isinstance(word, str) and is_text(word), f"`{name}` should be text in `settings` and `facts`")
        trained = self.facts["task"] in (NODES, LINKS_TASK)
        require(not trained or type(self.facts.get("clues")) is bool, "`facts` should say whether there are `clues`")
        try:
            describe_training(self.facts, self.settings["first"])
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise Mismatch("`facts` should be numbers of the training") from error


def read_progress(folder: Path) -> WatchProgress | None:
    """What watch.json says; None if there is none."""
    path = folder / WATCH
    if not path.exists():
        return None
    held = WATCH_FORM.open(read_json(path), f" in {path}")
    check_listed(path, held.get("steps"), held.get("digests"))
    return decode(WatchProgress, held, f"what a watch wrote in {path}")


@dataclass(frozen=True, eq=False)
class Watch:
    """The results of a watch: its folder and every step."""

    folder: Path
    progress: WatchProgress
    fresh: tuple[int, ...] = ()  # steps that were done just now

    def __len__(self) -> int:
        """Number of steps."""
        return len(self.progress.steps)

    @property
    def facts(self) -> Mapping[str, Any]:
        """Facts of the training: task, num_trained, num_tested, score, baseline."""
        return self.progress.facts

    @property
    def report(self) -> Path:
        """The index page."""
        return self.folder / PAGE

    @property
    def snapshots(self) -> Snapshots:
        """The graphs, read from the folder."""
        return read_snapshots(self.folder / SNAPSHOT_FOLDER)

    def scan(self, step: int) -> Scan:
        """Every explanation of a step, from 1."""
        if not 0 < step <= len(self):
            raise InputError(f"Expected a step from 1 to {len(self)} (got {step}).")
        return read_scan(step_folder(self.folder, step))

    def to_frame(self) -> pd.DataFrame:
        """One row per step: edges added and removed; predictions that moved, flipped and were explained; the score."""
        return pd.DataFrame([asdict(step) for step in self.progress.steps])

    @property
    def answer(self) -> str:
        """The word for a prediction: class, or answer for links."""
        return "answer" if self.progress.settings["task"] == LINKS_TASK else "class"

    @property
    def sentences(self) -> list[str]:
        """The findings of the steps, the model that was trained and its accuracy, and what not to conclude."""
        warning, *rest = describe_training(dict(self.facts), str(self.progress.settings["first"]))
        if describe_warning(dict(self.facts)):
            return [warning, *self.findings, *rest]
        return [*self.findings, warning, *rest]

    @property
    def largest(self) -> int:
        """The step with the most flips, from 1; among equals that with the largest total change."""
        return self._largest_of(range(len(self)))

    def _largest_of(self, places: Iterable[int]) -> int:
        steps = self.progress.steps
        return 1 + max(places, key=lambda place: (steps[place].num_flipped, steps[place].moved_by))

    @property
    def findings(self) -> list[str]:
        """The largest step and its largest flip, then all steps, and whether the largest is unusual."""
        frame, unit = self.to_frame(), "node" if self.facts["task"] == NODES else "prediction"
        answer, settings = self.answer, self.progress.settings
        if frame.empty:
            return ["There is no step yet: only one snapshot."]
        step = self.progress.steps[self.largest - 1]
        predicted = f"{step.num_predicted:,} {unit}s{' asked for' * (settings['task'] == LINKS_TASK)}"
        lines = [
            f"{LARGEST}, {step.before} to {step.after}: {step.num_flipped:,} of {predicted} went to another "
            f"{answer}; {step.edges_added:,} edges were added, {step.edges_expired:,} expired because time passed, and "
            f"{step.edges_removed:,} were removed by events."
        ]
        share = (frame.num_flipped / frame.num_predicted.clip(lower=1)).to_numpy()
        worst, usual = float(share[self.largest - 1]), float(np.median(share))
        if len(frame) > 2 and worst > 2 * usual and step.num_flipped >= UNUSUAL_FLIPS:
            lines[0] += f" That is more than usual: {worst:.1%} of the {unit}s, and {usual:.1%} at the median step."
        if step.num_flipped and step.by_time > 0.5:
            lines.append(describe_time(step, str(settings["window"])))
        if step.causes:
            lines.append(step.causes)
        lines += self._largest_flip()
        lines.append(
            f"Over {len(frame)} step{'s' * (len(frame) > 1)}, {frame.num_moved.sum():,} predictions moved and "
            f"{frame.num_flipped.sum():,} went to another {answer}; {frame.num_explained.sum():,} are explained."
        )
        missed = int((frame.num_flipped - frame.num_reached).clip(lower=0).sum())
        if missed:
            lines.append(
                f"For {missed:,} of {frame.num_flipped.sum():,} flips there was no time to find what did them; "
                "--flip-seconds gives more."
            )
        most = settings.get("pairs")
        if most is not None and (frame.num_predicted >= most).any():
            lines.append(
                f"{most:,} pairs asked for at a step, the limit; they are drawn from those that came or went. --pairs "
                "raises it."
            )
        known = frame.score.dropna()
        if len(known) > 1:
            lines.append(
                f"On later snapshots the model is right for {known.min():.1%} to {known.max():.1%} of the labelled "
                f"nodes held out from training ({known.iloc[-1]:.1%} on the last), if labels have not changed since."
            )
        return lines

    def _largest_flip(self) -> list[str]:
        """The largest flip of the largest step; where that is close to a tie, the clearest of another step as well."""
        steps, lines = self.progress.steps, []
        step = steps[self.largest - 1]
        clear = [place for place, one in enumerate(steps) if one.num_reached and not one.is_tie]
        if step.is_tie and clear:
            other = steps[self._largest_of(clear) - 1]
            lines.append(f"A clearer flip, {other.before} to {other.after}: {other.answer} {LIMIT}")
        if step.answer:
            which = "Its largest flip" if step.is_whole else f"The largest of {step.looked_at}"
            lines.append(f"{which if step.num_flipped else 'What moved the most'}: {step.answer}")
            if step.num_flipped and len(lines) == 1:
                lines[0] += f" {LIMIT}"
        return lines

    @property
    def _table(self) -> pd.DataFrame:
        """The steps, without what only sentences say and what is not known."""
        frame = self.to_frame().drop(columns=["answer", "moved_by", "causes", "is_tie", "num_causes"], errors="ignore")
        return frame.dropna(axis="columns", how="all").round(3)

    def __str__(self) -> str:
        """Everything in words, and the steps as a table."""
        table = "" if not len(self) else "\n" + self._table.to_string(index=False, max_rows=SHOWN_STEPS)
        return "\n".join(self.sentences) + table

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The same in a notebook."""
        words = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in self.sentences)
        return words + self._table.to_html(index=False, max_rows=SHOWN_STEPS)


def describe_time(step: WatchedStep, window: str) -> str:
    """That time, and no event, did most of it; and what can be done about that."""
    line = f"{step.due_to_time}: edges older than {window} expired."
    if window == "all":
        return line
    return f"{line} --window all keeps every edge; with --rule count an edge weakens event by event."


def read_watch(folder: str | Path) -> Watch:
    """Open the folder of a watch."""
    progress = read_progress(Path(folder))
    if progress is None:
        raise MissingFile(f"Expected a watch in {folder} (found none); axiompath.watch_events writes it.")
    return Watch(Path(folder), progress)


def step_folder(folder: Path, step: int) -> Path:
    """Where the scan of a step is, from 1."""
    return folder / STEP_FOLDER / f"{step:04d}"


def check_place(folder: ResumableFolder, held: WatchProgress | None) -> None:
    """Refuse a folder that is neither empty nor that of a watch, or in which others took a watch's names."""
    folder.check_folder()
    if held is None:
        if not folder.is_free():
            raise InputError(f"Expected an empty folder, or one of a watch (got {folder.path}); choose another.")
        return
    steps = sorted((folder.path / STEP_FOLDER).glob(f"{'[0-9]' * 4}.html"))
    pages = [PAGE, *(f"{STEP_FOLDER}/{path.name}" for path in steps)]
    taken = [name for name in pages if folder.is_plain(name) and not _is_page(folder.path / name)]
    folder.refuse(taken + folder.foreign([WATCH, *pages], [MODEL_FOLDER, SNAPSHOT_FOLDER, STEP_FOLDER]))


def _is_page(path: Path) -> bool:
    """Whether a page was made here."""
    with path.open("rb") as stream:
        return MADE_BY in stream.read(FIRST_BYTES)
