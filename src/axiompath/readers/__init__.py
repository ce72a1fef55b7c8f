"""torch module + snapshots -> Network.

recording.py     runs a copy of the model once on real data and writes down every step: Recording
forms.py         an affine expression in values already computed: Form
convolutions.py  one small function a convolution; a table from type to function
functions.py     one small function a torch function; a table from name to function
assembly.py      Recording -> forms -> layers -> Network
reading.py       the whole way in, and the check that the Network computes what the model computes
"""

from .reading import read_network
from .recording import UnreadableModel

__all__ = ["UnreadableModel", "read_network"]
