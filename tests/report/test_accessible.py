"""Every kind of page, in light and in dark: names, roles and contrast as axe-core judges them."""

import threading

import numpy as np
import pytest
import torch
from torch_geometric.nn import GCN

import axiompath
from axiompath.cli.demo import evolve_karate, train_karate
from axiompath.datasets import drifting_events
from axiompath.report.server import LocalServer
from support.scans import CLASSES, evolved
from support.windows import CELLS, WIDTH, random_dates

pytestmark = [pytest.mark.system, pytest.mark.filterwarnings("ignore::axiompath.errors.Notice")]

axe = pytest.importorskip("axe_playwright_python.sync_playwright")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Addresses of every kind of page, of files and of the local server, and what says that it is drawn."""
    folder = tmp_path_factory.mktemp("pages")
    model, before = train_karate()
    after = evolve_karate(before)
    explainer = axiompath.Explainer(model, before, after, class_names=["a", "b", "c", "d"])
    axiompath.save_report(folder / "report.html", explainer, [8, 13], budgets=[0, 3, 8])
    stories = axiompath.build_stories(model, [before, after, before], [8], 3)
    axiompath.save_report(folder / "story.html", stories)
    torch.manual_seed(0)
    scanned = axiompath.Explainer(GCN(3, 16, 2, 3).eval(), *evolved(0, 80), class_names=CLASSES)
    scanned.scan(folder / "scan", 3, workers=1, progress=False).report(folder / "scan.html")
    first = next(iter(axiompath.read_scan(folder / "scan"))).target
    events, labels = drifting_events()
    watched = axiompath.watch_events(events, folder / "w", labels, every="60D", window="120D", top=1, workers=1)
    axiompath.save_report(folder / "sequence.html", axiompath.read_scans(watched.folder))
    days = random_dates(np.random.default_rng(1), 4)
    forecaster = axiompath.unroll(CELLS["gru"][0](), head=torch.nn.Linear(WIDTH, 2), state=WIDTH).double()
    windows = axiompath.Explainer(forecaster, days[:3], days[1:])
    moved = int(windows.moved().target[0])
    axiompath.save_report(folder / "windows.html", windows, [moved])
    files = {name: (folder / f"{name}.html").as_uri() for name in ("report", "story", "scan", "sequence", "windows")}
    with LocalServer(folder / "scan") as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield {
            "report, overview": (f"{files['report']}#all", "#moved tbody tr"),
            "report, a node": (f"{files['report']}#node=8", "#waterfall tr"),
            "story, overview": (f"{files['story']}#all", "#stories tbody tr"),
            "story, a node": (f"{files['story']}#node=8", "#step-causes svg"),
            "scan, overview": (f"{files['scan']}#all", "#grid tbody tr:nth-child(3)"),
            "scan, a node": (f"{files['scan']}#node={first}", "#waterfall tr"),
            "sequence": (f"{files['sequence']}#all", "#time .step"),
            "watch": (watched.report.as_uri(), "tbody tr"),
            "watch, a step": (f"{(watched.folder / 'steps' / '0001.html').as_uri()}#all", "#by-cause"),
            "windows, a node": (f"{files['windows']}#node={moved}", "#strip td"),
            "served, overview": (f"{server.address}#all", "#grid tbody tr:nth-child(3)"),
            "served, a node": (f"{server.address}#node={first}", "#waterfall tr"),
        }
        server.shutdown()
        thread.join()


def show(browser, address, wanted, **options):
    """The page, drawn."""
    page = browser.new_page(**options)
    page.set_default_timeout(60_000)
    page.goto(address)
    page.wait_for_selector(wanted)
    page.wait_for_timeout(200)
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(pages, browser, scheme):
    found = {}
    for name, (address, wanted) in pages.items():
        size = {"width": 1280, "height": 900}
        page = show(browser, address, wanted, color_scheme=scheme, viewport=size, bypass_csp=True)
        answer = axe.Axe().run(page)
        for rule in answer.response["violations"]:
            found[name, rule["id"]] = [node["html"][:160] for node in rule["nodes"]][:4]
        page.close()
    assert found == {}


@pytest.mark.parametrize("width", [360, pytest.param(1920, marks=pytest.mark.slow)])
def test_no_page_is_wider_than_its_screen(pages, browser, width):
    wide = {}
    for name, (address, wanted) in pages.items():
        page = show(browser, address, wanted, viewport={"width": width, "height": 800})
        wide[name] = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        page.close()
    assert {name: pixels for name, pixels in wide.items() if pixels > 1} == {}
