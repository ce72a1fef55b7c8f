"""What a model computes, whatever its classes are called: one recorded run for each snapshot -> Network.

tape.py        one run of a copy of the model -> the tensor operations that it made: Recorder, Trace
rows.py        which rows of two recordings are the same node, message, graph or pair: Axis, Recorded
values.py      an affine expression on rows, and where its numbers stand in the model's tensor: Value
reader.py      reads two traces backwards from the output: Reader, Step
columns.py     operations within rows: element-wise affine ones, views, sums, linear maps
crossing.py    operations that lead to other rows: gather, scatter, products with a matrix
factors.py     features times features: a coefficient, or a product
elementwise.py element-wise functions -> activations
functions.py   name of a tensor operation -> how it is read
assemble.py    model + before + after -> Network, checked against the model
"""
