"""One model read twice, by the classes of its layers and by its operations: the same paths with the same shares."""

import contextlib
from unittest import mock

import numpy as np
import torch

import axiompath
from axiompath.readers import reader
from axiompath.readers.tape import UnreadableModel


@contextlib.contextmanager
def by_operations():
    """Within, no model is read by the classes of its layers."""

    def refuse(*_, **__):
        raise UnreadableModel("by operations")

    with mock.patch.object(reader, "_read_and_check", refuse):
        yield


def without_biases(model):
    """The same model with every bias at 0, and norms that shift nothing."""
    for name, parameter in model.named_parameters():
        if "bias" in name.rsplit(".", 1)[-1]:
            torch.nn.init.zeros_(parameter)
    for module in model.modules():
        if getattr(module, "running_mean", None) is not None:
            torch.nn.init.zeros_(module.running_mean)
    return model


def shares_of(found):
    """Places of each path that has a share -> its shares; edges by their ends."""
    places = {number: tuple(place)[:2] for number, place in found.edge_places.items()}
    shares = {}
    for path, share in zip(found.paths.tolist(), found.contributions, strict=True):
        key = tuple(places.get(place, place) for place in path)
        shares[key] = shares.get(key, 0.0) + share
    return shares


def largest_difference(model, before, after, **options):
    """Between the shares of both readings, over the largest logit; of every target that moved."""
    by_classes = axiompath.Explainer(model, before, after, **options)
    with by_operations():
        by_steps = axiompath.Explainer(model, before, after, **options)
    largest = 0.0
    for target in by_classes.moved().target:
        target = tuple(target) if isinstance(target, (tuple, list)) else target
        first, second = (shares_of(one.attribute(target)) for one in (by_classes, by_steps))
        scale = max(1.0, *(float(np.abs(share).max()) for share in first.values()))
        for path in first.keys() | second.keys():
            difference = first.get(path, 0.0) - second.get(path, 0.0)
            largest = max(largest, float(np.abs(difference).max()) / scale)
    return largest


def names_lines(network):
    """Whether a network was read by the operations that a model makes: its layers are named by their lines."""
    return all(".py:" in layer.blocks[-1].name for layer in network.layers)
