"""Arguments by another library's names, several targets where one is asked for, and the length of records."""

import inspect

import numpy as np
import pytest

import axiompath
from support.players import evolve, make


@pytest.fixture(scope="module")
def explainer():
    return axiompath.Explainer(make("gcn"), *evolve(4, 6))


def test_an_unknown_argument_is_refused_by_the_right_one(explainer):
    for wrong in ("top", "k", "n_paths", "budgte"):
        with pytest.raises(axiompath.InputError, match=rf"of explain \(got `{wrong}`\); use `budget`"):
            explainer.explain(0, **{wrong: 3})
    with pytest.raises(TypeError, match=r"of blame \(got `node`\); use `target`"):
        explainer.blame(node=0)
    with pytest.raises(TypeError, match=r"use `seconds`"):
        explainer.undo(0, timeout=3)
    with pytest.raises(TypeError, match=r"Expected the arguments none of moved \(got `colour`\); it has none"):
        explainer.moved(colour="red")
    with pytest.raises(TypeError, match=r"of Explainer \(got `names`\); use `node_names`"):
        axiompath.Explainer(make("gcn"), *evolve(4, 6), names=["a"])
    assert list(inspect.signature(axiompath.Explainer.explain).parameters)[:3] == ["self", "target", "budget"]
    assert explainer.explain(0, budget=2).budget == 2


def test_several_targets_are_asked_for_with_explain_many(explainer):
    for several in ([0, 1], [0], range(3), {0, 1, 2}):
        for ask in (explainer.explain, explainer.blame, explainer.undo, explainer.attribute):
            with pytest.raises(axiompath.InputError, match=rf"got {len(several)} in a .*explain_many\(targets\)"):
                ask(several)
    assert explainer.explain(np.int64(0), 2).target == 0


def test_records_have_a_length_and_tables_with_names(explainer):
    told, blame = explainer.explain(0, 3), explainer.blame(0)
    assert len(told) == len(told.to_frame()) == 3
    assert len(blame) == len(blame.to_frame()) == len(blame.shares)
    undo = explainer.undo(0, below=float(blame.predicted_after) - 1e-3)
    frame = undo.to_frame()
    assert len(undo) == len(frame) == len(undo.changes)
    assert list(frame.columns) == ["change", "kind", "src", "src_name", "dst", "dst_name"]
    rows = explainer.changes().set_index("id").loc[frame.change]
    assert frame.src.tolist() == rows.src.tolist()
    assert frame.src_name.tolist() == rows.src_name.tolist()


def test_names_of_the_release_before_warn(explainer):
    record, found = explainer.explain(0, 3, by="edge"), explainer.blame(0)
    for one, old, new in (
        (record, "row_name", "unit_name"), (found, "told", "quantity"), (found, "told_after", "predicted_after"),
    ):  # fmt: skip
        with pytest.warns(DeprecationWarning, match=f"`{old}` is now `{new}`"):
            assert getattr(one, old) == getattr(one, new)


def test_a_summary_goes_from_what_happened_to_the_paths(explainer):
    told = explainer.explain(0, 3)
    text, happened = told.summary(), explainer.happened(0)
    order = [text.index(part) for part in (
        told.headline, happened.blame.row_name(0), "Exact, over all subsets", "altered paths", "in brackets"
    )]  # fmt: skip
    assert order == sorted(order)
    if happened.undo is not None:
        assert happened.undo.sentence in text
    again = axiompath.Explanation.from_dict(told.to_dict())
    assert again.happened is None
    assert again.summary().startswith(told.headline)


def test_plots_are_axes_that_can_be_given(explainer):
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3)
    told = explainer.explain(0, 3)
    assert told.plot(ax=axes[0]) is axes[0]
    assert len(axes[0].get_yticks()) == 3 + 2 + (told.num_paths > 3)
    assert explainer.blame(0).plot(ax=axes[1]) is axes[1]
    undo = explainer.undo(0, below=float(told.prob_after[told.class_after]) - 1e-3)
    assert undo.plot(ax=axes[2]) is axes[2]
    assert [label.get_text() for label in axes[2].get_yticklabels()][:2] == ["before", "after"]
    figure.draw_without_rendering()
    pyplot.close(figure)
    fresh = told.plot()
    assert min(label.get_fontsize() for label in fresh.get_yticklabels()) >= 12  # read at half the width of a slide
    pyplot.close(fresh.figure)
