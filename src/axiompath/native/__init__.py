"""The compiled kernels: loops over typed arrays that Python has allocated and checked (see README.md)."""
