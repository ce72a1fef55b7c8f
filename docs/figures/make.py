"""The program itself -> the pictures of the documentation. Run it when what it draws has changed, and look at each.

    python docs/figures/make.py                 all of them
    python docs/figures/make.py blame report    some of them

Pages are photographed by Chromium (AXIOMPATH_BROWSER, or `chromium` on the path).
"""

import os
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from playwright.sync_api import sync_playwright
from torch import manual_seed
from torch.nn import Module
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import axiompath
from axiompath.cli.demo import evolve_karate, train_karate
from axiompath.datasets import drifting_communities, drifting_events

HERE = Path(__file__).parent


def karate() -> axiompath.Explainer:
    """The change that the tutorial explains, with its names."""
    model, before = train_karate()
    return axiompath.Explainer(model, before, evolve_karate(before), node_names=[f"member {i}" for i in range(34)])


def photograph(page: Path, name: str, *, height: int, part: str | None = None) -> None:
    """The first screen of a page, 1,200 pixels wide, or a part of it."""
    browser = os.environ.get("AXIOMPATH_BROWSER") or shutil.which("chromium")
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        view = chromium.new_page(viewport={"width": 1200, "height": height})
        view.goto(page.as_uri())
        view.wait_for_timeout(1500)
        (view.locator(part) if part else view).screenshot(path=str(HERE / f"{name}.png"))
        chromium.close()


def draw(axes: Axes, name: str) -> None:
    """The figure of these axes."""
    axes.figure.savefig(HERE / f"{name}.png", dpi=110, bbox_inches="tight")
    plt.close("all")


def blame(folder: Path) -> None:
    """The waterfall of `blame.plot()`."""
    draw(karate().blame(8).plot(), "blame")


def paths(folder: Path) -> None:
    """The waterfall of `explanation.plot()`."""
    draw(karate().explain(8, budget=5).plot(), "paths")


def flow(folder: Path) -> None:
    """The flow picture of a report."""
    karate().explain(8, budget=10).save_html(folder / "report.html")
    photograph(folder / "report.html", "flow", height=2600, part="#flow")


def story(folder: Path) -> None:
    """The lines of `story.plot()`."""
    snapshots = drifting_communities(num_nodes=400, num_communities=4)
    manual_seed(0)
    model = GCN(snapshots[0].num_features, 16, num_layers=2, out_channels=4)
    train(model, snapshots[0], 60)
    draw(axiompath.build_stories(model, snapshots, top=1)[0].plot(), "story")


def report(folder: Path) -> None:
    """The page of one member in a report."""
    explainer = karate()
    page = explainer.explain(8, budget=5).save_html(folder / "report.html", explainer.happened(8))
    photograph(Path(page or folder / "report.html"), "report", height=1500)


def scan(folder: Path) -> None:
    """The report of a scan."""
    snapshots = drifting_communities(num_nodes=2000, num_communities=5, num_snapshots=2)
    manual_seed(0)
    model = GCN(snapshots[0].num_features, 16, num_layers=2, out_channels=5)
    train(model, snapshots[0])
    found = axiompath.Explainer(model, *snapshots).scan(folder / "scan", blame=True, progress=False, workers=1)
    found.report(folder / "scan.html")
    photograph(folder / "scan.html", "scan-page", height=1100)


def watch(folder: Path) -> None:
    """The page that a watch begins with."""
    events, labels = drifting_events()
    axiompath.watch_events(events, folder / "watched", labels, every="30D", window="90D", top=2, workers=1)
    photograph(folder / "watched" / "report.html", "watch", height=1000)


def windows(folder: Path) -> None:
    """The strip that the page on windows draws."""
    page = (HERE.parent / "how-to-windows.md").read_text(encoding="utf-8")
    script = runpy.run_path(str(HERE.parent / "notebooks" / "from_pages.py"))["to_script"](page)
    (folder / "page.py").write_text(script, encoding="utf-8")
    subprocess.run([sys.executable, "page.py"], cwd=folder, stdout=subprocess.DEVNULL, check=True)
    shutil.copy(folder / "strip.png", HERE / "windows.png")


def train(model: Module, data: Data, steps: int = 100) -> None:
    """So many steps of Adam."""
    from torch.nn.functional import cross_entropy
    from torch.optim import Adam

    optimizer = Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        cross_entropy(model(data.x, data.edge_index), data.y).backward()
        optimizer.step()
    model.eval()


PICTURES: tuple[Callable[[Path], None], ...] = (blame, paths, flow, story, report, scan, watch, windows)


if __name__ == "__main__":
    wanted = sys.argv[1:] or [picture.__name__ for picture in PICTURES]
    for picture in PICTURES:
        if picture.__name__ in wanted:
            with tempfile.TemporaryDirectory() as made:
                picture(Path(made))
