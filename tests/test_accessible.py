"""Every kind of page, in light and in dark: names, roles and contrast as axe-core judges them."""

import pytest
import torch
from torch_geometric.nn import GCN

import axiompath
from axiompath.cli.demo import evolve_karate, train_karate
from axiompath.datasets import drifting_events
from test_scan_report import CLASSES, evolved

axe = pytest.importorskip("axe_playwright_python.sync_playwright")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Files of every kind, and where in them to look."""
    folder = tmp_path_factory.mktemp("pages")
    model, before = train_karate()
    after = evolve_karate(before)
    explainer = axiompath.Explainer(model, before, after, class_names=["a", "b", "c", "d"])
    axiompath.save_report(folder / "report.html", explainer, [8, 13], budgets=[0, 3, 8])
    stories = axiompath.tell_stories(model, [before, after, before], [8], 3)
    axiompath.save_story_report(folder / "story.html", stories)
    torch.manual_seed(0)
    scanned = axiompath.Explainer(GCN(3, 16, 2, 3).eval(), *evolved(0, 80), class_names=CLASSES)
    scanned.scan(folder / "scan", 3, workers=1, progress=False).report(folder / "scan.html")
    first = next(iter(axiompath.read_scan(folder / "scan"))).target
    events, labels = drifting_events()
    watched = axiompath.watch_events(events, folder / "w", labels, every="60D", window="120D", top=1, workers=1)
    axiompath.save_scan_report(folder / "sequence.html", axiompath.read_scans(watched.folder))
    return {
        "report, overview": (folder / "report.html", "#all", "#moved tbody tr"),
        "report, a node": (folder / "report.html", "#node=8", "#waterfall .bars"),
        "story, overview": (folder / "story.html", "#all", "#stories tbody tr"),
        "story, a node": (folder / "story.html", "#node=8", "#step-causes .bars"),
        "scan, overview": (folder / "scan.html", "#all", "#grid tbody tr:nth-child(3)"),
        "scan, a node": (folder / "scan.html", f"#node={first}", "#waterfall .bars"),
        "sequence": (folder / "sequence.html", "#all", "#time .step"),
        "watch": (watched.report, "", "tbody tr"),
    }


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_axe_finds_nothing(pages, open_page, scheme):
    found = {}
    for name, (path, address, wanted) in pages.items():
        page = open_page(path, color_scheme=scheme, viewport={"width": 1280, "height": 900}, bypass_csp=True)
        page.goto(path.as_uri() + address)
        page.wait_for_selector(wanted)
        page.wait_for_timeout(200)
        answer = axe.Axe().run(page)
        for rule in answer.response["violations"]:
            found[name, rule["id"]] = [node["html"][:160] for node in rule["nodes"]][:4]
        page.close()
    assert found == {}


@pytest.mark.parametrize("width", [360, 1920])
def test_no_page_is_wider_than_its_screen(pages, open_page, width):
    wide = {}
    for name, (path, address, wanted) in pages.items():
        page = open_page(path, viewport={"width": width, "height": 800})
        page.goto(path.as_uri() + address)
        page.wait_for_selector(wanted)
        page.wait_for_timeout(200)
        wide[name] = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        page.close()
    assert {name: pixels for name, pixels in wide.items() if pixels > 1} == {}
