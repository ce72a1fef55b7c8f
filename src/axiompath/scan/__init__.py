"""Session -> Scan: every moved node of a large graph, explained on all cores or on a cluster, surviving faults.

plan.py       which nodes, cut into parts of known cost and memory
work.py       what a worker does with a part
parts.py      explanations as Parquet, written atomically; flat.py: many of them as arrays
nodes.py      the table of nodes beside them
facts.py      what each change does to the targets that it reaches, where changes are blamed; tally.py: their shares
folder.py     lock, manifest, what is missing
run.py        parts handed to processes on this machine, or to tasks on a Ray cluster
scan.py       all of it in order
"""
