"""Case -> Scan: every moved node of a large graph, explained on all cores or on a cluster, surviving faults.

plan.py       which nodes, cut into parts of known cost and memory
work.py       what a worker does with a part
parts.py      explanations as Parquet, whole or not at all
folder.py     lock, manifest, what is missing
engines.py    processes on this machine          cluster.py    tasks on a Ray cluster
scan.py       all of it in order
"""

from .plan import Thresholds
from .scan import Engine, Scan, Settings, read_scan, scan_case

__all__ = ["Engine", "Scan", "Settings", "Thresholds", "read_scan", "scan_case"]
