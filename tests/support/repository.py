"""Where the files of the repository are."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


# A block after a comment `<!-- not run: why -->` is only shown.
BLOCK = re.compile(r"(<!-- not run:[^>]*-->\s*)?^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


SOURCE = ROOT / "src" / "axiompath"


def module_name(path):
    return ".".join(part for part in path.relative_to(SOURCE).with_suffix("").parts if part != "__init__")


FILES = {module_name(path): path for path in SOURCE.rglob("*.py")}
