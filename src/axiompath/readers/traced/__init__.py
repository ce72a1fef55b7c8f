"""What a model computes, whatever its classes are called: one recorded run per snapshot -> Network.

tape.py        one run of a copy of the model -> the tensor operations it made: Recorder, Trace
rows.py        which rows of two recordings are the same node, edge or graph: Axis; coefficients as recorded: Recorded
values.py      an affine expression on rows, and where its numbers lie in the model's tensor: Value
reader.py      reads two traces backwards from the output: Reader
functions.py   one small function per tensor operation; a table by name
columns.py     operations that act on columns: linear maps, views, sums
crossing.py    operations that cross rows: gather, scatter, products with a matrix
factors.py     features times features: a coefficient, or a product
open.py        model + before + after -> Network, checked against the model on both
"""
