"""Change + one of its hops -> the Change above that hop, whose paths are the ends that the paths of the whole have.

Whatever leads to a node U at the input of the hop sums, state by state, to the value that U has there: h_after in
after, h_before in before, their difference in delta. So the part of the network that begins at the hop, with these
values for features, gives every end the exact sum of all paths that end so, and what walks, attributes, searches or
counts paths does the same with ends.
"""

from __future__ import annotations

from dataclasses import replace

from ..network.layers import ForwardPass
from .comparison import Change, find_descents
from .links import find_links


def cut_change(change: Change, hop: int) -> Change:
    """The change above the input of layer `hop`, which passes messages; of the lowest hop, all but the layers below."""
    layers = change.network.layers
    network = replace(change.network, layers=layers[hop:], num_features=layers[hop - 1].width)
    before, after = (
        ForwardPass(network.layers, side.received(hop), side.coefficients[hop:], side.z[hop:])
        for side in (change.before_pass, change.after_pass)
    )
    links = find_links(network, 0)
    # The leaves' columns are one class, whatever they were within the whole.
    lowest = find_descents(change.layers[hop], links[0], change.differs[hop])
    descents = (lowest, *change.descents[hop + 1 :])
    found = Change(
        network, change.before, change.after, before, after, change.layers[hop:], change.differs[hop:], descents, links
    )
    vars(found)["rates"] = change.rates[hop:]  # known already; they would be found again from the same z
    return found
