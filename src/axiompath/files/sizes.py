"""path -> a size one can afford, or an InputError: what a file would take is known before it is read."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

from ..errors import InputError

# Arrays beyond this are refused unless the caller says otherwise: more likely a broken header than a graph.
MAX_BYTES = 8 * 10**9


def check_size(path: Path, size: float, max_bytes: float) -> None:
    """Refuse what would take more memory than allowed."""
    if size > max_bytes:
        raise InputError(
            f"Expected a file of at most {max_bytes / 1e9:.1f} GB in memory ({path} says {size / 1e9:,.1f} GB); "
            "pass a larger `max_bytes` to axiompath.read_graph if it is right."
        )


def check_file(path: Path, max_bytes: float) -> None:
    """Refuse a file that is missing, a folder, empty, or larger than allowed."""
    if not path.exists():
        raise InputError(f"Expected a file at {path} (found none).")
    if not path.is_file():
        raise InputError(f"Expected a file at {path} (found a folder or a device).")
    size = path.stat().st_size
    if size == 0:
        raise InputError(f"Expected a file with something in it ({path} is empty).")
    check_size(path, size, max_bytes)


def check_archive(path: Path, max_bytes: float, remedy: str | None = None) -> list[str]:
    """Names inside a zip archive that unpacks to no more than allowed; `remedy` says what to do about a damaged one."""
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, struct.error) as error:
        raise not_whole(path, remedy) from error
    check_size(path, sum(info.file_size for info in infos), max_bytes)
    return [info.filename for info in infos]


def not_whole(path: Path, remedy: str | None = None) -> InputError:
    """What is said of every archive that cannot be read."""
    return InputError(
        f"Expected a whole {path.suffix} file at {path} (it is of another kind, damaged or cut short: "
        f"{remedy or 'copy or save it again'})."
    )
