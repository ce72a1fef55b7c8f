"""Session -> Scan: every moved node of a large graph, explained on all cores or on a cluster, surviving faults.

plan.py       which nodes, cut into parts of known cost and memory
work.py       what a worker does with a part
parts.py      explanations as Parquet, written atomically; part_table.py: many of them as arrays, or as a table
tables.py     the tables beside them
effects.py    what each change does to the targets that it reaches; scan_blame.py: the shares that are made of it
flips.py      what did each flip, and what would undo it
folder.py     lock, manifest, what is missing
run.py        parts handed to processes on this machine, or to tasks on a Ray cluster
scan.py       all of it in order
"""
