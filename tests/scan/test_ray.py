"""Scans on a real Ray cluster of two machines (two node processes here), workers killed in mid-task included."""

import os
import sys
import threading
import time

import psutil
import pytest
import torch
from torch_geometric.nn import GCN

import axiompath
from axiompath.errors import InputError
from axiompath.scan import plan
from support.repository import BLOCK, ROOT
from support.scans import content, evolving_graph, scan, with_names

pytestmark = pytest.mark.system

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'axiompath[ray]'")


@pytest.fixture(scope="module")
def cluster():
    """Two machines with a core each."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    found = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 200_000_000, "dashboard_port": 0}
    )
    found.add_node(num_cpus=1, object_store_memory=200_000_000)
    yield found
    ray.shutdown()
    found.shutdown()


@pytest.fixture(scope="module")
def explainer():
    torch.manual_seed(0)
    return axiompath.Explainer(GCN(8, 16, 3, 4).eval(), *evolving_graph(1500, 60))


@pytest.fixture(autouse=True)
def parts(monkeypatch):
    monkeypatch.setattr(plan, "PART_TARGETS", 150)


@pytest.fixture(scope="module")
def undisturbed(explainer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("local") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "PART_TARGETS", 150)
        scan(explainer, folder, method="exact")
    return content(folder)


def test_ray_writes_the_bytes_that_local_processes_write(explainer, cluster, tmp_path, undisturbed):
    found = scan(explainer, tmp_path / "out", method="exact", engine="ray", ray_address=cluster.address)
    assert content(tmp_path / "out") == undisturbed
    assert len(found) > 1000
    assert not ray.is_initialized()


@pytest.mark.slow
def test_a_ray_worker_killed_in_mid_task_changes_no_byte(explainer, cluster, tmp_path, undisturbed):
    folder = tmp_path / "out"
    killed = []

    def kill():
        deadline = time.monotonic() + 120
        while len(killed) < 2 and time.monotonic() < deadline:
            for process in psutil.process_iter(["cmdline"]):
                title = " ".join(process.info["cmdline"] or ()).strip()
                part = title.removeprefix("ray::") if title.startswith("ray::part-") else None
                if part and not (folder / "parts" / f"{part}.parquet").exists() and part not in killed:
                    process.kill()
                    killed.append(part)
                    break
            time.sleep(0.005)

    killer = threading.Thread(target=kill)
    killer.start()
    scan(explainer, folder, method="exact", engine="ray", ray_address=cluster.address)
    killer.join()
    assert killed
    assert content(folder) == undisturbed


@pytest.mark.slow
def test_a_target_at_which_ray_workers_die_is_recorded(explainer, cluster, tmp_path, monkeypatch):
    moved = explainer.moved()
    victim = int(moved.target[3])
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a test
    # Names are looked up by the worker when it has explained the target: this one ends the process instead.
    monkeypatch.setattr(explainer, "session", with_names(explainer.session, node_names=Deadly(victim)))
    found = scan(explainer, tmp_path, min_kl=moved.kl[3], engine="ray", ray_address=cluster.address)
    assert victim in found.failures().target.tolist()
    assert all("died" in problem for problem in found.failures().problem)
    assert len(found) + len(found.failures()) == found.manifest["num_targets"]
    assert len(found) > 0


class Deadly(dict):
    """Names that nobody survives asking for."""

    def __init__(self, victim):
        super().__init__({-1: "bias"})
        self.victim = victim

    def __reduce__(self):
        return Deadly, (self.victim,)

    def __contains__(self, node):
        if node == self.victim:
            os._exit(1)
        return False


@pytest.mark.slow
def test_the_page_on_ray_runs_as_it_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = list(BLOCK.finditer((ROOT / "docs/how-to-scan.md").read_text(encoding="utf-8")))
    (on_ray,) = (block for block in blocks if block[1] is not None)
    space = {"__name__": "__main__"}
    for block in (blocks[0], on_ray):
        exec(compile(block[2], "how-to-scan.md", "exec"), space)
    assert not ray.is_initialized()
    alone = space["explainer"].scan("alone", budget=5, progress=False)
    assert len(alone) > 0
    assert content("on-ray") == content("alone")


def test_no_cluster_gets_a_sentence(explainer, tmp_path):
    with pytest.raises(InputError, match=r"Expected a Ray cluster at 127\.0\.0\.1:1"):
        scan(explainer, tmp_path / "out", engine="ray", ray_address="127.0.0.1:1")
