"""A change held against the definition written out, one path at a time."""

import numpy as np

from axiompath.change.states import KINDS
from axiompath.paths.attribution import attribute_paths
from axiompath.paths.walk import count_paths, walk_paths
from references import LiteralAttribution, literal_causes, literal_kind


def assert_twin(change, targets):
    """The same paths, counts, shares, kinds and causes; and both sums are the change of the logits."""
    reference = LiteralAttribution(change.network, change.before, change.after)
    found = walk_paths(change, targets)
    shares, counts = attribute_paths(change, found), count_paths(change)[targets]
    for i, target in enumerate(targets):
        rows = slice(found.indptr[i], found.indptr[i + 1])
        expected = reference(target)
        paths = [tuple(path) for path in found.paths[rows].tolist()]
        assert len(set(paths)) == len(paths) == counts[i]
        assert set(paths) == set(expected)
        parts = [part for causes in reference.shares.values() for part in causes.values()]
        scale = max([1.0, *(np.abs(part).max() for part in parts)])
        for path, value, kind in zip(paths, shares.contributions[rows], shares.kinds[rows], strict=True):
            np.testing.assert_allclose(value, expected[path], rtol=0, atol=1e-10 * scale)
            name, margin = literal_kind(reference, path)
            if margin > 1e-10 * scale:  # which of two equal shares is larger is a matter of rounding
                assert KINDS[kind] == name
        change_of_logits = change.after_pass.logits[target] - change.before_pass.logits[target]
        tolerance = 1e-9 * scale * max(1, counts[i])
        np.testing.assert_allclose(shares.contributions[rows].sum(axis=0), change_of_logits, atol=tolerance)
        np.testing.assert_allclose(shares.causes[i].sum(axis=0), change_of_logits, atol=tolerance)
        for cause, value in zip(KINDS, shares.causes[i], strict=True):
            np.testing.assert_allclose(value, literal_causes(reference)[cause], atol=tolerance)
