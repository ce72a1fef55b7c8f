"""The page on Ray runs as it is written, on a real local cluster of two workers, and gives the same to the last bit."""

import os

import pytest

import axiompath
from test_docs import BLOCK, ROOT

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'axiompath[ray]'")


def test_the_page_on_ray_gives_what_one_process_gives(monkeypatch):
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    (block,) = BLOCK.finditer((ROOT / "docs/how-to-ray.md").read_text(encoding="utf-8"))
    space = {"__name__": "__main__"}
    try:
        exec(compile(block[2], "how-to-ray.md", "exec"), space)
    finally:
        ray.shutdown()
    alone = axiompath.Explainer(space["model"], space["before"], space["after"])
    targets = alone.changes().node.tolist()
    assert sorted(space["found"]) == sorted(targets)
    for explanation in alone.explain_many(targets, budget=5, progress=False):
        assert space["found"][explanation.target].to_dict() == explanation.to_dict()
