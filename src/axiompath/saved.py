"""A record -> JSON and back: the form that its files have, by name and version, and every field of it accounted for."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from .errors import InputError
from .trust import blamed, check_version, read_json
from .writing import write_text

R = TypeVar("R", bound="Saved")


@dataclass(frozen=True)
class FileForm:
    """What files of a kind of record say of themselves, and which fields each version of them has."""

    word: str  # what people call it
    version: int  # that is written; earlier ones are read, too
    since: Mapping[str, int] = field(default_factory=dict)  # field -> the version that brought it, where not the first
    unsaved: frozenset[str] = frozenset()  # fields that files do not have

    @property
    def name(self) -> str:
        """What a file says that it is."""
        return f"axiompath.{self.word}"

    def fields_of(self, cls: type, version: int) -> list[str]:
        """The fields that a version has, in order."""
        names = [item.name for item in fields(cls) if item.name not in self.unsaved]
        return [name for name in names if self.since.get(name, 1) <= version]

    def check(self, cls: type, values: Any) -> None:
        """Refuse what has another name, an unknown version, or other fields than that."""
        one = f"{'an' if self.word[0] in 'aeiou' else 'a'} {self.word}"
        if not isinstance(values, dict) or values.get("format") != self.name:
            raise InputError(f"Expected a saved {self.word} (format {self.name!r}); got something else.")
        remedy = "use the release of axiompath that wrote it, or save it again"
        version = check_version(values, self.version, "the format", remedy)
        known = {"format", "version", *self.fields_of(cls, version)}
        missing, strange = sorted(known - set(values)), sorted(str(key)[:30] for key in set(values) - known)
        if missing or strange:
            raise InputError(
                f"Expected the fields of {one} (missing: {', '.join(missing) or 'none'}; "
                f"unknown: {', '.join(strange[:3]) or 'none'})."
            )


class Saved(ABC):
    """A frozen record that is saved as JSON and loaded again; its class says the form."""

    form: ClassVar[FileForm]
    drawn_by: ClassVar[str] = ""  # methods that draw the record, where it has any

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold, with the format's name and version."""
        names = self.form.fields_of(type(self), self.form.version)
        held = {name: to_plain(getattr(self, name)) for name in names}
        return {"format": self.form.name, "version": self.form.version, **held}

    @classmethod
    @abstractmethod
    def from_dict(cls: type[R], values: dict[str, Any]) -> R:
        """The record again, every field checked; raises InputError with a sentence where one is amiss."""

    def save(self, path: str | Path) -> None:
        """Write JSON; a file that is there is replaced only once the new one is whole."""
        if Path(path).suffix.lower() not in ("", ".json"):
            instead = f"; {self.drawn_by} draws it" if self.drawn_by else ""
            raise InputError(f"Expected a name that ends in .json (got {path}): save writes JSON{instead}.")
        write_text(path, json.dumps(self.to_dict(), indent=1, allow_nan=True))

    @classmethod
    def load(cls: type[R], path: str | Path) -> R:
        """Read what `save` wrote; what is amiss with it is said of that file."""
        values = read_json(Path(path))
        try:
            return cls.from_dict(values)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error


def rebuild(cls: type[R], values: Any, build: Callable[[type[R], dict[str, Any]], R]) -> R:
    """What `build` makes of values that have the form; what it stumbles over is a fault of theirs."""
    cls.form.check(cls, values)
    with blamed(f"Expected a whole {cls.form.word} (one of its fields has another form)."):
        return build(cls, values)


def to_plain(value: Any) -> Any:
    """The same as plain values."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return {str(key): to_plain(part) for key, part in value.items()}
    return [to_plain(part) for part in value] if isinstance(value, (tuple, list)) else value
