"""Every format that is read: one good file of each, by the package's own writers, and how people open it."""

import contextlib
import functools
import io
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from support.written import FOLDER

SEED = 13


@dataclass(frozen=True)
class Format:
    """What is damaged, and how it is opened. All paths are relative to the folder of a case."""

    name: str
    files: tuple[str, ...]  # those that are damaged, one at a time
    read: Callable[[Path], object] = lambda folder: None  # in Python; may raise InputError and nothing else
    command: tuple[str, ...] = ()  # on the command line; may end with 0 or 2 and nothing else


def run_command(arguments, folder):
    """The command line's own entry, in this process: its exit code, and what it wrote."""
    from axiompath.cli import app as cli

    out, old, place = io.StringIO(), sys.argv, Path.cwd()
    try:
        sys.argv = ["axiompath", *arguments]
        os.chdir(folder)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            cli.main()
    except SystemExit as end:
        return end.code or 0, out.getvalue()
    finally:
        sys.argv = old
        os.chdir(place)
    return 0, out.getvalue()


def read_graph(name, nodes=None):
    def read(folder):
        import axiompath

        return axiompath.read_graph(folder / name, None if nodes is None else folder / nodes)

    return read


def read_batch(folder):
    """A batch of graphs, as a model that pools them is asked."""
    import axiompath

    data = axiompath.read_graph(folder / "batch.npz").data
    return axiompath.Explainer(pooled(data.x.shape[1]), data, data).moved()


def pooled(width):
    import torch
    from torch_geometric.nn import GCN, global_mean_pool

    class Pooled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = GCN(width, 4, num_layers=1, out_channels=2)

        def forward(self, x, edge_index, batch):
            return global_mean_pool(self.conv(x, edge_index), batch)

    return Pooled().eval()


def read_model(folder):
    import axiompath

    return axiompath.load_model(folder / "model")


def read_explanation(name):
    def read(folder):
        import axiompath

        found = axiompath.Explanation.load(folder / f"{name}.json")
        return found.summary(), found.to_dict(), found.to_frame(), found.to_html()

    return read


def read_story(name):
    def read(folder):
        import axiompath

        found = axiompath.Story.load(folder / f"{name}.json")
        return found.summary(), found.to_frame(), found.shares(), found.to_dict()

    return read


def read_judgement(name, record=None):
    def read(folder):
        import axiompath

        found = getattr(axiompath, record or name.capitalize()).load(folder / f"{name}.json")
        return found.summary(), found.to_dict()

    return read


def read_scan(name):
    def read(folder):
        import axiompath
        from axiompath.report import scan_page
        from axiompath.report.survey import survey_scan

        found = axiompath.read_scan(folder / name)
        tables = found.moved(), found.too_large(), found.to_frame(), found.failures()
        told = scan_page.describe_survey(survey_scan(found), "scan")
        return found.summary, found.origin, tables, list(found), told

    return read


def read_scans(folder):
    """As `axiompath report` and `axiompath serve` do, with every page that the latter would send."""
    import axiompath
    from axiompath.report.server import LocalServer

    found = axiompath.read_scans(folder / "scans")
    with LocalServer(folder / "scans") as server:
        pages = [server.explain(step, row) for step, scan in enumerate(found) for row in range(min(len(scan), 3))]
    return [scan.summary for scan in found], pages, server.page


def read_blamed_scan(folder):
    import axiompath

    found = axiompath.read_scan(folder / "scan blame")
    tallies = found.blame(), found.blame(by="kind")
    return [(tally.summary(), tally.to_frame()) for tally in tallies], found.summary


def read_events(suffix):
    def read(folder):
        import axiompath

        return repr(axiompath.snapshots(folder / f"events.{suffix}", "10D", "30D", weight="amount"))

    return read


def read_labels(folder):
    import axiompath

    made = axiompath.snapshots(folder / "events.csv", "20D", "40D", nodes=folder / "labels.csv", features="degrees")
    return made.class_names, repr(made)


def read_snapshots(folder):
    import axiompath

    return repr(axiompath.snapshots(folder / "snapshots"))


def read_watch(folder):
    import axiompath

    found = axiompath.read_watch(folder / "watch")
    return (
        repr(found),
        found.to_frame(),
        found._repr_html_(),
        found.snapshots,
        [found.scan(i + 1) for i in range(len(found))],
    )


def explain(name, *options):
    return ("explain", "model", name, "after.npz" if name.endswith((".npz", ".pt")) else name, *options, "--json")


SCAN_FILES = ("manifest.json", "moved.parquet", "too_large.parquet", "parts/part-000000.parquet")
BLAME_FILES = ("manifest.json", "changes.parquet", "blamed.parquet", "sampled.parquet", "blame/facts-000000.parquet")
STORED = ("graph.json", "indptr.npy", "senders.npy", "x.npy", "names.npy", "names_indptr.npy")
STEPS = ("--every", "10D", "--window", "30D", "--out")
WATCH_FILES = ("watch.json", "snapshots/snapshots.json", "snapshots/0001.npz", "model/model.json",
               "model/weights.safetensors", "steps/0001/manifest.json", "steps/0001/moved.parquet")  # fmt: skip
TYPED = ("nodes.author", "nodes.paper", "edges.author.writes.paper", "edges.paper.cites.paper")
FORMATS = {
    item.name: item
    for item in (
        *(Format(name, (file,), read_graph(file), explain(file)) for name, file in (
            ("npz", "before.npz"), ("npz sparse", "sparse.npz"), ("pt", "before.pt"), ("pt dict", "dict.pt"))),
        Format("npz edges", ("edges.npz",), read_graph("edges.npz"), ("convert", "edges.npz", "--out", "out")),
        Format("npz pairs", ("pairs.npz",), read_graph("pairs.npz"),
               ("explain", "link model", "pairs.npz", "plainer.npz", "--json")),
        Format("npz batch", ("batch.npz",), read_batch, ("diff", "batch.npz", "batch.npz", "--json")),
        Format("pt typed", ("typed.pt",), read_graph("typed.pt"), ("diff", "typed.pt", "typed.pt", "--json")),
        *(Format(f"typed {kind}", tuple(f"typed {kind}/{part}.{kind}" for part in TYPED), read_graph(f"typed {kind}"),
                 ("diff", f"typed {kind}", f"typed {kind}", "--json")) for kind in ("csv", "parquet")),
        Format("model", ("model/model.json", "model/weights.safetensors"), read_model, explain("before.npz")),
        *(Format(kind, (f"edges.{kind}", f"nodes.{kind}"), read_graph(f"edges.{kind}", f"nodes.{kind}"),
                 explain(f"edges.{kind}", "--nodes", f"nodes.{kind}")) for kind in ("csv", "tsv", "parquet")),
        Format("npy", ("e.npy", "x.npy"), command=("convert", "e.npy", "--nodes", "x.npy", "--out", "out")),
        Format("stored", tuple(f"stored/{name}" for name in STORED), read_graph("stored"), explain("stored")),
        *(Format(name, (f"{name}.json",), read_explanation(name))
          for name in ("explanation", "explanation typed", "explanation link")),
        *(Format(name, (f"{name}.json",), read_story(name)) for name in ("story", "story link")),
        *(Format(name, (f"{name}.json",), read_judgement(name)) for name in ("blame", "undo", "enough")),
        Format("edges", ("edges.json",), read_judgement("edges", "Explanation")),
        *(Format(name, tuple(f"{name}/{part}" for part in SCAN_FILES), read_scan(name),
                 ("report", name, "--out", "out.html")) for name in ("scan", "scan link", "scan 0.2")),
        Format("scans", tuple(f"scans/step-000{i}/{part}" for i in (1, 2) for part in SCAN_FILES), read_scans,
               ("report", "scans", "--out", "out.html")),
        Format("scan blame", tuple(f"scan blame/{part}" for part in BLAME_FILES), read_blamed_scan),
        *(Format(f"events {kind}", (f"events.{kind}", "people.csv"), read_events(kind),
                 ("snapshots", f"events.{kind}", "--nodes", "people.csv", *STEPS, "out"))
          for kind in ("csv", "csv.gz", "parquet")),
        Format("labels", ("labels.csv",), read_labels,
               ("snapshots", "events.csv", "--nodes", "labels.csv", "--features", "degrees", *STEPS, "out")),
        Format("snapshots", ("snapshots/snapshots.json", "snapshots/0001.npz"), read_snapshots,
               ("diff", "snapshots", "--json")),
        Format("watch", tuple(f"watch/{part}" for part in WATCH_FILES), read_watch,
               ("watch", "events.csv", "--labels", "labels.csv", "--workers", "1", "--top", "1", "--out", "watch")),
        Format("links", ("pairs.csv",), command=(
               "explain", "link model", "plain.npz", "plainer.npz", "--links", "pairs.csv", "--json")),
    )
}  # fmt: skip


def make_seeds(folder):
    """One good file of every format, by the package's own writers."""
    import pandas as pd
    import torch
    from torch_geometric.data import Data
    from torch_geometric.nn import GCN

    import axiompath

    torch.manual_seed(SEED)
    folder.mkdir(parents=True, exist_ok=True)
    x, edges = torch.randn(30, 4), torch.randint(0, 30, (2, 80))
    names, classes = [f"node {i}" for i in range(30)], ["no", "maybe", "yes"]
    before, after = (Data(x=x, edge_index=part, y=torch.arange(30) % 3) for part in (edges, edges[:, 5:]))
    axiompath.save_graph(folder / "before.npz", before, names, classes)
    axiompath.save_graph(folder / "after.npz", after, names, classes)
    arguments = {"in_channels": 4, "hidden_channels": 5, "num_layers": 2, "out_channels": 3, "norm": "batch_norm"}
    model = GCN(**arguments).eval()
    axiompath.save_model(model, folder / "model", arguments)
    links = pd.DataFrame({"source": edges[0], "target": edges[1], "weight": torch.rand(80)})
    labels = [classes[i % 3] for i in range(30)]
    nodes = pd.DataFrame(x.numpy(), columns=list("abcd")).assign(id=range(30), label=labels)
    _make_graphs(folder, x, edges, names, classes)
    for stem, table in (("edges", links), ("nodes", nodes)):
        _write_tables(folder / stem, table, "csv", "tsv", "parquet")
    _make_typed(folder, x, edges, names, nodes.drop(columns="label"), links)
    _make_events(folder, edges, names, nodes.assign(id=names), links)
    axiompath.convert_graph(folder / "before.npz", folder / "stored")
    explainer = axiompath.Explainer(model, before, after, node_names=names, class_names=classes)
    target = int(explainer.moved().target[0])
    explainer.explain(target, 5).save(folder / "explanation.json")
    explainer.blame(target, interactions=True).save(folder / "blame.json")
    another = (int(explainer.moved().class_after[0]) + 1) % 3
    explainer.undo(target, to=another, every=True).save(folder / "undo.json")
    explainer.enough(target).save(folder / "enough.json")
    explainer.explain(target, by="layer_edge").save(folder / "edges.json")
    told = axiompath.build_stories(model, [before, after, before], top=1, progress=False)
    next(iter(told)).save(folder / "story.json")
    explainer.scan(folder / "scan", 3, min_kl=0.0, workers=1, progress=False)
    explainer.scan(folder / "scan blame", 3, min_kl=0.0, workers=1, progress=False, blame=True)
    list(axiompath.scan_sequence(model, [before, after, before], folder / "scans", budget=3, workers=1, progress=False))
    _make_links(folder, before, after, names)
    shutil.copytree(FOLDER / "scan", folder / "scan 0.2")


def _write_tables(stem, table, *kinds):
    writers = {"csv": table.to_csv, "tsv": functools.partial(table.to_csv, sep="\t"), "parquet": table.to_parquet}
    for kind in kinds:
        writers[kind](f"{stem}.{kind}", index=None if kind == "parquet" else False)


def _make_graphs(folder, x, edges, names, classes):
    """Graphs in one file each, beside before.npz and after.npz."""
    import numpy as np
    import torch
    from torch_geometric.data import Data

    import axiompath

    sparse = Data(x=torch.relu(x - 1).to_sparse_csr(), edge_index=edges, edge_weight=torch.rand(80))
    axiompath.save_graph(folder / "sparse.npz", sparse)
    kinds = {"edge_type": torch.arange(80) % 2, "relation_names": ["likes", "hates"], "n_id": torch.arange(30) + 7}
    rich = Data(x=x, edge_index=edges, edge_weight=torch.rand(80), edge_attr=torch.rand(80, 3), **kinds)
    axiompath.save_graph(folder / "edges.npz", rich, names, classes)
    torch.save(Data(x=x, edge_index=edges, node_names=names, class_names=classes), folder / "before.pt")
    torch.save({"x": torch.relu(x).to_sparse(), "edge_index": edges, "n_id": torch.arange(30)}, folder / "dict.pt")
    several = Data(x=x, edge_index=edges, batch=torch.arange(30) // 10, graph_id=torch.tensor([5, 3, 8]))
    axiompath.save_graph(folder / "batch.npz", several, names)
    paired = Data(x=x, edge_index=edges, edge_label_index=torch.arange(20).reshape(2, 10))
    axiompath.save_graph(folder / "pairs.npz", paired, names)
    np.save(folder / "e.npy", edges.numpy())
    np.save(folder / "x.npy", x.numpy())


def _make_typed(folder, x, edges, names, nodes, links):
    """Graphs with types of nodes, and an explanation of one."""
    import torch
    from torch_geometric.data import HeteroData
    from torch_geometric.nn import HeteroConv, SAGEConv

    import axiompath

    data, relations = HeteroData(), (("author", "writes", "paper"), ("paper", "cites", "paper"))
    for kind in ("author", "paper"):
        data[kind].x, data[kind].name = x[:, : 3 + (kind == "paper")], names
    for relation in relations:
        data[relation].edge_index = edges
    torch.save(data, folder / "typed.pt")
    for kind in ("csv", "parquet"):
        (folder / f"typed {kind}").mkdir(exist_ok=True)
        for part in TYPED:
            _write_tables(folder / f"typed {kind}" / part, nodes if part.startswith("nodes") else links, kind)

    class Typed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = HeteroConv({r: SAGEConv((3 if r[0] == "author" else 4, 4), 3) for r in relations})

        def forward(self, x_dict, edge_index_dict):
            return self.conv(x_dict, edge_index_dict)["paper"]

    later = data.clone()
    later[relations[0]].edge_index = edges[:, 5:]
    explainer = axiompath.Explainer(Typed().eval(), data, later)
    explainer.explain(explainer.moved().target[0], 3).save(folder / "explanation typed.json")


def _make_events(folder, edges, names, people, links):
    """Dated events, their snapshots, and a watch over them."""
    import numpy as np
    import pandas as pd

    import axiompath

    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(80), "D")
    ends = {side: [names[place] for place in row] for side, row in zip(("source", "target"), edges, strict=True)}
    dated = pd.DataFrame({**ends, "time": days, "amount": links.weight})
    _write_tables(folder / "events", dated, "csv", "parquet")
    dated.to_csv(folder / "events.csv.gz", index=False, sep=";")
    people.to_csv(folder / "people.csv", index=False)
    people[["id", "label"]].to_csv(folder / "labels.csv", index=False)
    axiompath.save_snapshots(axiompath.snapshots(dated, "10D", "30D", nodes=people), folder / "snapshots")
    # There is an event a day; a step of the watch is done, and all events together make another.
    axiompath.watch_events(dated[:60], folder / "watch", folder / "labels.csv", every="15D", window="40D", top=1,
                           workers=1)  # fmt: skip


def _make_links(folder, before, after, names):
    """A network of pairs of nodes, and what is said of these."""
    import axiompath
    from axiompath.files.small_gnns import LinkGNN

    arguments = {"in_channels": 4, "hidden_channels": 5}
    model, pairs = LinkGNN(**arguments).eval(), [(place, 29 - place) for place in range(10)]
    axiompath.save_model(model, folder / "link model", arguments)
    for name, data in (("plain.npz", before), ("plainer.npz", after)):
        axiompath.save_graph(folder / name, data, names)
    (folder / "pairs.csv").write_text("".join(f"{names[u]},{names[v]}\n" for u, v in pairs))
    explainer = axiompath.Explainer(model, before, after, links=pairs, node_names=names)
    explainer.explain(explainer.moved().target[0], 3).save(folder / "explanation link.json")
    explainer.scan(folder / "scan link", 3, min_kl=0.0, workers=1, progress=False)
    told = axiompath.build_stories(model, [before, after, before], links=pairs, top=1, progress=False)
    next(iter(told)).save(folder / "story link.json")
