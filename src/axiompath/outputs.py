"""What the columns of a model's output mean: one class of several, a yes or no each, or values."""

from __future__ import annotations

AUTO, CLASSES, BINARY, LABELS, VALUES = "auto", "classes", "binary", "labels", "value"
KINDS_OF_OUTPUT = (CLASSES, BINARY, LABELS, VALUES)
