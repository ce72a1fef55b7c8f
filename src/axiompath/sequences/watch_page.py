"""Watch -> the page that leads to everything: what moved, what the model is worth, a row a step."""

from __future__ import annotations

import html
from importlib.resources import files
from pathlib import Path
from string import Template

from ..storage.writing import write_text
from .training import tell_training
from .watch_folder import STEP_FOLDER, Watch, WatchedStep

WIDEST_BAR = 6.0  # rem, of the step at which most went to another class


def build_page(found: Watch) -> str:
    """HTML text; it loads nothing from elsewhere."""
    steps, settings = found.progress.steps, found.progress.settings
    most = max((_share(step) for step in steps), default=0.0) or 1.0
    title = f"What moved: {steps[0].before} to {steps[-1].after}" if steps else "What moved"
    judged = any(step.score is not None for step in steps)
    template = Template((files(__package__) / "watch.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=html.escape(title),
        findings=_paragraphs(found.findings),
        training=_paragraphs(tell_training(dict(found.facts), str(settings["first"]))),
        rows="\n".join(_row(place, step, most, judged) for place, step in enumerate(steps, 1)),
        answer=found.answer,
        right='<th scope="col">right</th>' * judged,
        columns=html.escape(_columns(found.answer, judged)),
        folder=html.escape(str(found.folder)),
        rule=html.escape(str(settings["rule"])),
    )


def save_page(found: Watch) -> Path:
    """Write it; a page that is there is replaced only once the new one is whole."""
    return write_text(found.report, build_page(found))


def _paragraphs(sentences: list[str]) -> str:
    return "\n".join(f"<p>{html.escape(sentence)}</p>" for sentence in sentences)


def _columns(answer: str, judged: bool) -> str:
    """What the columns of the table mean."""
    told = f"Moved: predictions that a change reached; of these, to another {answer}: a share of all predictions."
    if judged:
        told += " Right: of the labelled nodes that training never saw, after the step."
    return told


def _share(step: WatchedStep) -> float:
    return step.num_flipped / max(step.num_predicted, 1)


def _row(place: int, step: WatchedStep, most: float, judged: bool) -> str:
    share = _share(step)
    counts = (step.edges_added, step.edges_removed, step.num_moved, step.num_flipped)
    cells = "".join(f"<td>{count:,}</td>" for count in counts)
    width = WIDEST_BAR * share / most
    bar = f'<td class="gauge"><span class="bar" style="width:{width:.2f}rem"></span> {share:.1%}</td>'
    right = f"<td>{'–' if step.score is None else f'{step.score:.1%}'}</td>" * judged
    name = html.escape(f"{step.before} → {step.after}")
    link = f'<a href="{STEP_FOLDER}/{place:04d}.html">{name}</a>'
    return f"<tr><td>{link}</td>{cells}{bar}<td>{step.num_explained:,}</td>{right}</tr>"
