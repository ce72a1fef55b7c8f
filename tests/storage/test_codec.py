"""Every field of every record: what is missing, of another type, length or range is refused, and the field is named."""

import copy
import json
import re
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, get_args, get_type_hints

import numpy as np
import pytest

import axiompath
from axiompath.arrays import FloatArray, IntArray
from axiompath.graphs.places import Target
from axiompath.storage.codec import Count, FileForm, Finite, Saved, Shape, Share, Text, decode, one_of
from support.written import KINDS, RECORDS, updated

PLAIN = {path.stem: updated(json.loads(path.read_text())) for path in RECORDS}
FIELDS = [(stem, name) for stem, held in PLAIN.items() for name in held if name not in ("format", "version")]
OPTIONAL = {
    "until",
    "origin",
    "retrained",
    "interactions",
    "method",
    "scales",
    "seed",
    "score",
    "left_out",
}  # null is a value


def load(values):
    return KINDS[values["format"].removeprefix("axiompath.")].from_dict(values)


def refuse(values, name):
    with pytest.raises(axiompath.InputError) as told:
        load(values)
    said = str(told.value)
    assert re.search(rf"\b{name}\b", said), said
    assert said.startswith("Expected ")
    assert said.endswith(".")
    assert "\n" not in said


@pytest.mark.parametrize(("stem", "name"), FIELDS)
def test_a_field_of_another_kind_is_refused_by_name(stem, name):
    values = PLAIN[stem]
    refuse({key: value for key, value in values.items() if key != name}, name)
    wrong = [{"a": 1}, "\ud800", 10**400]
    wrong += [None] if name not in OPTIONAL or (name == "method" and not stem.startswith("story")) else []
    wrong += [] if isinstance(values[name], bool) else [True]
    wrong += [[[[]]], [None, "x"]]
    for value in wrong:
        if value != values[name] and not (value == {"a": 1} and name == "causes"):
            refuse({**values, name: value}, name)


@pytest.mark.parametrize(("stem", "name"), [item for item in FIELDS if isinstance(PLAIN[item[0]][item[1]], list)])
def test_a_list_of_another_length_is_refused_by_name(stem, name):
    values = PLAIN[stem]
    free = {"class_names", "relations", "alternatives"}  # of any length
    if not values[name] or name in free:
        return
    if len(values[name]) > 1 or name != "hops":  # of which there may be none
        refuse({**values, name: values[name][:-1]}, name)
    refuse({**values, name: [*values[name], values[name][-1]]}, name)


RANGES = {
    "budget": [-1, 2**63, 1.5, "3"],
    "class_after": [-1, 99],
    "class_before": [-1, 99],
    "num_paths": [-1, 2**63],
    "num_units": [-1],
    "num_changes": [-1],
    "num_evaluations": [-1, 2**64],
    "num_in_sight": [-1],
    "excluded": [-1],
    "until": [0, 1.5, -0.1, float("nan"), True],
    "objective": ["both", ""],
    "unit": ["edge", "node\n", ["node"]],
    "by": ["node", "paths"],
    "target": [-1, 2**63, [-1, 2], [1], [1, 2, 3], "4", 1.0],
    "explained": [1.5, float("inf"), -1e301],
    "residual": [float("nan"), float("inf")],
    "cost": [float("nan"), float("inf"), "1"],
    "logits": [[float("nan")] * 3, [float("inf")] * 3],
    "prob_after": [[float("nan")] * 3, [float("inf")] * 3, ["1"] * 3, [True] * 3],
    "exact": [0, "true"],
    "proved": [1],
    "kl": ["1", [1.0]],
    "left_out": [[1.0], [1.0, 1.0], [-1.0, -1.0], [float("nan"), 0.0], [1.0, -1.0, 0.0], [True, False]],
    "directed": [[True] * 9, [1], ["true"]],
    "changes": [[[]] * 9, [[0, 1]] * 9],
}


@pytest.mark.parametrize("stem", ["explanation", "edge-explanation", "blame", "undo", "enough", "story"])
def test_a_value_out_of_range_is_refused_by_name(stem):
    values, loose = PLAIN[stem], {"enough": {"until"}, "story": {"logits"}}
    checked = 0
    for name, wrong in RANGES.items():
        for value in wrong if name in values and name not in loose.get(stem, ()) else ():
            refuse({**values, name: value}, name)
            checked += 1
    assert checked > 5
    for kind in ("kinds", "groups", "hops"):
        if values.get(kind):
            refuse({**values, kind: ["odd"] * len(values[kind])}, kind)


INSIDE = [
    ("explanation-groups", "groups", 0, {"row": -1, "size": "many", "kinds": ["odd"], "paths": [[0.5]], "other": 1}),
    ("explanation", "hops", 0, {"flow": "sideways", "weighted": 1, "other": 1}),
    ("explanation-retrained", "retrained", None, {"logits_after": [1.0], "fidelity_plus": [1.0] * 3, "other": 1}),
    ("explanation-value", "output", None, {"kind": "odd", "scales": [0.0] * 3, "other": 1}),
    ("explanation", "origin", None, {"release": 1, "digests": {"a": 1}, "seed": "x", "other": 1}),
    ("story", "explanations", 0, {"kl": None, "kinds": ["odd"], "other": 1}),
    ("explanation-edges", "edge_places", "-1001", {}),
]


@pytest.mark.parametrize(("stem", "name", "place", "wrong"), INSIDE, ids=lambda item: str(item)[:25])
def test_records_within_records_are_checked_alike(stem, name, place, wrong):
    for key, value in wrong.items():
        values = copy.deepcopy(PLAIN[stem])
        inner = values[name] if place is None else values[name][place]
        inner[key] = value
        refuse(values, key)
        if key != "other":
            del inner[key]
            refuse(values, key)
    if not wrong:  # a pair of ends, and which of several
        for value in ([1], [1, -2], [1, 2, 3, 4, 5], [1.5, 2], "12"):
            refuse({**PLAIN[stem], name: {place: value}}, name)
        refuse({**PLAIN[stem], name: {}}, "paths")


def test_one_sentence_names_field_shape_and_what_came(tmp_path):
    values = PLAIN["explanation"]
    (tmp_path / "x.json").write_text(json.dumps({**values, "contributions": [[1.0, 2.0]] * len(values["paths"])}))
    with pytest.raises(axiompath.InputError) as told:
        axiompath.Explanation.load(tmp_path / "x.json")
    assert str(told.value) == (
        f"{tmp_path / 'x.json'}: Expected a whole explanation: `contributions` should be numbers of shape (paths, "
        "classes); got shape (3, 2), where `prob_before` has 3 classes."
    )
    with pytest.raises(axiompath.InputError) as told:
        axiompath.Explanation.from_dict({**values, "unit": "edge"})
    assert str(told.value) == "Expected a whole explanation: `unit` should be one of node, graph, link."
    with pytest.raises(axiompath.InputError) as told:
        axiompath.Explanation.from_dict({**values, "budget": "3"})
    assert str(told.value) == "Expected a whole explanation: `budget` should be a whole number; got text."


def test_no_union_of_a_record_has_bounds_beside_a_pair():
    """msgspec 0.22 takes the bounds of the number for the length of the pair, and reads beyond its memory."""
    assert get_args(Target) == (int, tuple[int, int])
    for cls in KINDS.values():
        for hint in get_type_hints(cls, include_extras=True).values():
            parts = get_args(hint)
            pairs = [part for part in parts if getattr(part, "__origin__", None) is tuple]
            assert not (pairs and any(hasattr(part, "__metadata__") for part in parts) and type(hint).__name__ in (
                "UnionType", "_UnionGenericAlias"))  # fmt: skip


# ---- the codec by itself ------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Part:
    """Within a Toy."""

    own: Annotated[FloatArray, Shape("shown", "columns")]
    word: Annotated[str, one_of("a b", "c")] = "c"


@dataclass(frozen=True, eq=False)
class Toy(Saved):
    """One field of every sort."""

    form: ClassVar = FileForm("toy", 3, {2: {"text": "new in 3"}})

    number: Count
    rows: Annotated[IntArray, Shape("rows", 2)]
    table: Annotated[FloatArray | None, Shape("rows", "columns", finite=True)]
    by_name: Annotated[dict[Text, FloatArray], Shape("columns")]
    words: Annotated[tuple[Text, ...], Shape("rows")]
    parts: tuple[Part, ...]
    part: Part | None
    share: Share | None
    finite: Finite
    free: Any
    text: Text


TOY = {
    "format": "axiompath.toy", "version": 3, "number": 1, "rows": [[1, 2]], "table": [[1, 2.5, 3]],
    "by_name": {"x": [1, 2, 3]}, "words": ["w"], "parts": [{"own": [[1, 2, 3]] * 4, "word": "a b"}], "part": None,
    "share": 1, "finite": 2, "free": {"any": [None]}, "text": "é",
}  # fmt: skip


def test_what_is_written_is_what_was_read():
    toy = Toy.from_dict(TOY)
    assert json.dumps(toy.to_dict()) == json.dumps(
        {**TOY, "table": [[1.0, 2.5, 3.0]], "by_name": {"x": [1.0, 2.0, 3.0]}, "share": 1.0, "finite": 2.0,
         "parts": [{"own": [[1.0, 2.0, 3.0]] * 4, "word": "a b"}]})  # fmt: skip
    assert (toy.rows.dtype, toy.by_name["x"].dtype, toy.parts[0].own.dtype) == (np.int64, np.float64, np.float64)
    none = Toy.from_dict({**TOY, "rows": [], "table": [], "words": [], "parts": [{"own": [], "word": "c"}]})
    assert (none.rows.shape, none.table.shape, none.parts[0].own.shape) == ((0, 2), (0, 3), (0, 3))
    assert Toy.from_dict({**TOY, "table": None}).table is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rows": [[1, 2, 3]]}, r"`rows` should be numbers of shape \(rows, 2\); got shape \(1, 3\)"),
        ({"rows": [[1, 2], [3, 4]]}, r"`table` should .* got shape \(1, 3\), where `rows` has 2 rows"),
        ({"rows": [[1, 2.5]]}, r"`rows` should be whole numbers of shape \(rows, 2\)"),
        ({"rows": [[2**63, 1]]}, r"`rows` should be whole numbers"),
        ({"table": [[1, 2, float("nan")]]}, r"`table` should be finite numbers of shape \(rows, columns\)"),
        ({"table": [[1], [2, 3]]}, r"`table` should be numbers in rows of one length"),
        ({"by_name": {"x": [1, 2]}}, r"`by_name` .* where `table` has 3 columns"),
        ({"by_name": {"\ud800": [1, 2, 3]}}, r"a key of `by_name` should be text that UTF-8 can hold"),
        ({"words": "w"}, r"`words` should be a list; got text"),
        ({"words": ["w", "w"]}, r"`words` should be a list of shape \(rows,\); got shape \(2,\)"),
        ({"parts": [{"own": [[1, 2]], "word": "c"}]}, r"`parts\[0\]\.own` .* where `table` has 3 columns"),
        ({"parts": [{"own": []}]}, r"`parts\[0\]` should have its fields \(missing: word; unknown: none\)"),
        ({"parts": [{"own": [], "word": "b"}]}, r"`parts\[0\]\.word` should be one of a b, c\."),
        ({"part": {"word": "c"}}, r"`part` should have field `own`"),
        ({"part": {"own": [], "word": "c", "z": 1}}, r"`part` should have its fields \(missing: none; unknown: z\)"),
        ({"share": 0}, r"`share` should be a number > 0"),
        ({"finite": float("inf")}, r"`finite` should be a number <="),
        ({"number": -1}, r"`number` should be a whole number >= 0"),
        ({"text": "\udfff"}, r"`text` should be text that UTF-8 can hold"),
        ({"evil": 1}, r"it should have its fields \(missing: none; unknown: evil\)"),
        ({"version": 1}, r"Expected version 2 to 3 of the format \(got 1\)"),
        ({"version": 4}, r"Expected version 2 to 3 of the format \(got 4\)"),
        ({"format": "axiompath.story"}, r"Expected a saved toy"),
    ],
)
def test_what_does_not_fit_is_told(changes, words):
    with pytest.raises(axiompath.InputError, match=words):
        Toy.from_dict({**TOY, **changes})


def test_an_earlier_version_becomes_the_present_one():
    old = {key: value for key, value in TOY.items() if key != "text"} | {"version": 2}
    assert Toy.from_dict(old).text == "new in 3"
    with pytest.raises(axiompath.InputError, match="missing: number"):
        Toy.from_dict({key: value for key, value in old.items() if key != "number"})


def test_where_a_class_is_partial_defaults_may_be_left_out():
    @dataclass(frozen=True)
    class Settings:
        partial: ClassVar = True

        first: int
        second: int = 2

    assert decode(Settings, {"first": 1}, "settings") == Settings(1, 2)
    for wrong in ({}, {"second": 1}, {"first": 1, "third": 1}, [], None, 3):
        with pytest.raises(axiompath.InputError, match="Expected settings: "):
            decode(Settings, wrong, "settings")
