"""Declared fields -> the JSON of a record, and back: types, ranges and shapes, all of them checked here.

A record is a frozen dataclass, and its annotations say what its files may hold:

    budget: Count                                                    a whole number of 0 or more
    unit: Annotated[str, one_of("node", "graph", "link")]            one of these words
    contributions: Annotated[FloatArray, Shape("paths", "classes")]  numbers; no other field has other `paths`

A name in a Shape is one size throughout a record and the records within it. What no annotation can say, the method
`check` of a record says with `require`. All fields have to be there; where a class is `partial`, those without default.

msgspec converts plain values to declared types. It is small, depends on nothing, takes no text for a number and no 1
for true, and adds milliseconds to the import. It does not know arrays, nor forbid fields that a dataclass does not
have: `_check` does both. Text is parsed by json, as files may hold NaN.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
from msgspec import Meta

from ..errors import InputError
from .safe import read_json
from .writing import write_text

T = TypeVar("T")
R = TypeVar("R", bound="Saved")

UTF_8 = "\\A[^\ud800-\udfff]*\\Z"  # half a letter cannot be written again
MAX_FLOAT = sys.float_info.max
Text: TypeAlias = Annotated[str, Meta(pattern=UTF_8)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
NodeOrNone: TypeAlias = Annotated[int, Meta(ge=-1, le=2**63 - 1)]  # -1 for none
Finite: TypeAlias = Annotated[float, Meta(ge=-MAX_FLOAT, le=MAX_FLOAT)]
Share: TypeAlias = Annotated[float, Meta(gt=0, le=1)]
UNSAVED = {"saved": False}  # metadata of a field that files do not have
TYPE_WORDS = {
    "int": "a whole number", "float": "a number", "str": "text", "bool": "true or false", "null": "null",
    "array": "a list", "object": "fields by name",
}  # fmt: skip
ARRAY_WORDS = {"f": "fractions", "U": "text", "b": "true or false"}


def one_of(*words: str) -> Meta:
    """One of these words."""
    return Meta(pattern=rf"\A(?:{'|'.join(map(re.escape, words))})\Z")


class Shape:
    """The sizes of an array, of each array in a dict, or the length of a tuple; by name, or as numbers."""

    def __init__(self, *sizes: str | int, finite: bool = False) -> None:
        self.sizes, self.finite = sizes, finite

    def __str__(self) -> str:
        """As people write it."""
        return f"({', '.join(map(str, self.sizes))}{',' * (len(self.sizes) == 1)})"


class Mismatch(ValueError):
    """Values that a record may not have; `decode` says of which record."""


def require(holds: bool | np.bool_, sentence: str) -> None:
    """Refuse a record of which this does not hold, with a sentence that names the field."""
    if not holds:
        raise Mismatch(sentence)


def decode(cls: type[T], values: Any, what: str) -> T:
    """Plain values -> a dataclass, every field checked; `what` was expected where one is amiss."""
    try:
        if issubclass(cls, Saved):
            values = cls.unpack(values)
        if isinstance(values, Mapping):
            _check_keys(cls, values, "")
        record = msgspec.convert(values, cls, str_keys=True, dec_hook=_to_array)
        _check(record, values, {}, "")
        return record
    except Mismatch as error:
        raise InputError(f"Expected {what}: {error}.") from error
    except msgspec.ValidationError as error:
        raise InputError(f"Expected {what}: {_sentence(str(error))}.") from error
    except UnicodeEncodeError as error:  # msgspec stumbles over half a letter where it looks for something else
        sentence = f"{_half_letter(values)} should not be text that UTF-8 cannot hold"
        raise InputError(f"Expected {what}: {sentence}.") from error


@dataclass(frozen=True)
class FileForm:
    """What files of a kind say of themselves, and what those of earlier versions lack."""

    word: str  # what people call it
    version: int  # that is written
    earlier: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)  # version -> fields that the next one added
    remedy: str = "use the release of axiompath that wrote it, or save it again"

    @property
    def name(self) -> str:
        """What a file says that it is."""
        return f"axiompath.{self.word}"

    @property
    def head(self) -> dict[str, Any]:
        """What a file begins with."""
        return {"format": self.name, "version": self.version}

    def open(self, values: Any, where: str = "") -> dict[str, Any]:
        """The fields, as the present version has them; refuses another format, or a version that is not known."""
        if not isinstance(values, dict) or values.get("format") != self.name:
            raise InputError(f"Expected a saved {self.word} (format {self.name!r}){where}; got something else.")
        version, oldest = values.get("version"), min(self.earlier, default=self.version)
        if type(version) is not int or not oldest <= version <= self.version:
            known = f"{oldest} to {self.version}" if oldest < self.version else oldest
            raise InputError(f"Expected version {known} of the format{where} (got {str(version)[:20]}); {self.remedy}.")
        held = {key: value for key, value in values.items() if key not in ("format", "version")}
        for number in range(version, self.version):
            held |= self.earlier[number]
        return held


class Saved:
    """A frozen dataclass that is saved as JSON and loaded again; its class says the form."""

    form: ClassVar[FileForm]
    drawn_by: ClassVar[str] = ""  # methods that draw the record, where it has any

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold, with the format's name and version."""
        return self.form.head | _to_fields(self)

    @classmethod
    def from_dict(cls: type[R], values: dict[str, Any]) -> R:
        """The record again, every field checked; raises InputError with a sentence where one is amiss."""
        return decode(cls, cls.form.open(values), f"a whole {cls.form.word}")

    @classmethod
    def unpack(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields as they are declared, where a file has another form of them."""
        return values

    def check(self) -> None:
        """Require what the annotations do not say."""

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


def to_plain(value: Any) -> Any:
    """The same as plain values."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Saved):
        return value.to_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return _to_fields(value)
    if isinstance(value, Mapping):
        return {str(key): to_plain(part) for key, part in value.items()}
    return [to_plain(part) for part in value] if isinstance(value, (tuple, list)) else value


def _to_fields(record: Any) -> dict[str, Any]:
    return {name: to_plain(getattr(record, name)) for name in _declared(record.__class__)}


@cache
def _declared(cls: Any) -> dict[str, tuple[Shape | None, Any]]:
    """The fields of files, each with its shape and the type of its numbers, where it has them."""
    hints = get_type_hints(cls, include_extras=True)
    saved = [item.name for item in fields(cls) if item.metadata.get("saved", True)]
    shapes = {name: [part for part in get_args(hints[name]) if isinstance(part, Shape)] for name in saved}
    return {name: (shapes[name][0] if shapes[name] else None, _number_type(hints[name])) for name in saved}


def _number_type(hint: Any) -> Any:
    """float64 or int64 of the arrays in a type; None if there are none."""
    if get_origin(hint) is np.ndarray:
        return get_args(get_args(hint)[1])[0]
    return next((found for part in get_args(hint) if (found := _number_type(part)) is not None), None)


def _to_array(_: type, value: Any) -> Any:
    """Numbers as an array, whatever they are; `_check` looks at them."""
    try:
        return np.asarray(value)
    except (ValueError, MemoryError) as error:  # rows of several lengths, or text among many numbers
        raise Mismatch("Expected numbers in rows of one length") from error


def is_text(word: str) -> bool:
    """Whether text can be written again."""
    return re.search(UTF_8, word) is not None


def _half_letter(values: Any) -> str:
    """The field that holds one."""
    held = values.items() if isinstance(values, Mapping) else ()
    broken = (name for name, value in held if not is_text(json.dumps(value, ensure_ascii=False, default=str)))
    return next((f"`{name}`" for name in broken), "it")


def _check_keys(cls: Any, values: Mapping[Any, Any], where: str) -> None:
    known = set(_declared(cls))
    needed = known
    if getattr(cls, "partial", False):
        needed = {item.name for item in fields(cls) if item.default is item.default_factory is MISSING}
    missing, strange = sorted(needed - set(values)), sorted(str(key)[:30] for key in set(values) - known)
    if missing or strange:
        raise Mismatch(
            f"{f'`{where}`' if where else 'it'} should have its fields (missing: {', '.join(missing) or 'none'}; "
            f"unknown: {', '.join(strange[:3]) or 'none'})"
        )


def _check(record: Any, given: Any, known: dict[str, tuple[int, str]], where: str) -> None:
    """Arrays and lengths against their shapes, with the sizes that are `known` and from where; then records within."""
    saved = _declared(record.__class__)
    declared = {name: (getattr(record, name), shape, kind) for name, (shape, kind) in saved.items()}
    for name, (value, shape, _) in declared.items():
        if shape is not None and value is not None:
            _bind(value, shape, known, where + name)
    for name, (value, shape, kind) in declared.items():
        if shape is not None and value is not None and kind is not None:
            object.__setattr__(record, name, _fit(value, shape, kind, known, where + name))
    for name, (value, _, _) in declared.items():
        source = given.get(name) if isinstance(given, Mapping) else None
        if is_dataclass(value):
            _check_within(value, source, known, where + name)
        for place, part in enumerate(value if isinstance(value, tuple) else ()):
            if is_dataclass(part):
                inner = source[place] if isinstance(source, (list, tuple)) else None
                _check_within(part, inner, known, f"{where}{name}[{place}]")
    if hasattr(record, "check"):
        record.check()


def _check_within(record: Any, given: Any, known: dict[str, tuple[int, str]], where: str) -> None:
    if isinstance(given, Mapping):
        _check_keys(type(record), given, where)
    _check(record, given, dict(known), f"{where}.")


def _bind(value: Any, shape: Shape, known: dict[str, tuple[int, str]], name: str) -> None:
    """Compare sizes with those that are known, and know the others from now on."""
    if isinstance(value, dict):
        for part in value.values():
            _bind(part, shape, known, name)
        return
    is_array = isinstance(value, np.ndarray)
    sizes = value.shape if is_array else (len(value),)
    # JSON has no rows of no row: [] is of any shape that begins with 0.
    fits, reason = len(sizes) == len(shape.sizes) or (is_array and sizes == (0,)), ""
    for size, wanted in zip(sizes, shape.sizes, strict=False):
        expected, source = (wanted, "") if isinstance(wanted, int) else known.setdefault(wanted, (size, name))
        if fits and size != expected:
            fits, reason = False, f", where `{source}` has {expected} {wanted}" if source else ""
    if not fits:
        word = "numbers" if is_array else "a list"
        raise Mismatch(f"`{name}` should be {word} of shape {shape}; got shape {sizes}{reason}")


def _fit(value: Any, shape: Shape, kind: Any, known: dict[str, tuple[int, str]], name: str) -> Any:
    """Arrays of the declared type and as many dimensions."""
    if isinstance(value, dict):
        return {key: _fit(part, shape, kind, known, name) for key, part in value.items()}
    if value.size == 0:
        return np.zeros([known.get(size, (0,))[0] if isinstance(size, str) else size for size in shape.sizes], kind)
    # Whole numbers beyond 64 bits become objects, truth values and text are none, and 1.5 is no node.
    whole_only = kind is np.int64
    word = "whole numbers" if whole_only else "finite numbers" if shape.finite else "numbers"
    is_number = value.dtype.kind in ("i" if whole_only else "if")
    if not is_number or (shape.finite and not np.isfinite(value).all()):
        got = "nan or infinite ones" if is_number else ARRAY_WORDS.get(value.dtype.kind, "something else")
        raise Mismatch(f"`{name}` should be {word} of shape {shape}; got {got}")
    return value.astype(kind)


def _sentence(text: str) -> str:
    """What msgspec says, in words, with the field's name first."""
    said, _, place = text.partition(" - at ")
    path = re.sub(r"^`\$\.?|`$", "", place.removeprefix("`key` in ")).replace("[...]", "")
    name = f"{'a key of ' * place.startswith('`key`')}`{path}`" if path else "it"
    if said.startswith("Object missing required field"):
        return f"{name} should have {said.removeprefix('Object missing required ')}"
    said = re.sub(
        r"`([a-z]+(?: \| [a-z]+)*)`", lambda m: " or ".join(TYPE_WORDS.get(w, w) for w in m[1].split(" | ")), said
    )
    said = re.sub(
        r"text matching regex .*\(\?:(.*)\).*", lambda m: "one of " + m[1].replace("\\", "").replace("|", ", "), said
    )
    said = re.sub(r"text matching regex .*", "text that UTF-8 can hold", said).replace(", got", "; got")
    return f"{name} should be {said.removeprefix('Expected ')}" if said.startswith("Expected") else f"{name}: {said}"
