"""A page of blocks: whole without script, searched and sorted with it, and commanded by no name."""

import pytest

from axiompath.report.document import (
    Answer,
    Answers,
    Cell,
    Column,
    Details,
    Fact,
    Facts,
    Prose,
    Strip,
    Strips,
    Table,
    render_document,
)  # fmt: skip

HOSTILE = "</script><img src=x onerror=alert(1)>"
STEPS = [f"2012-{month:02d}" for month in range(1, 13)]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("document") / "page.html"
    path.write_text(
        render_document(
            f"What moved: {HOSTILE}",
            [
                Prose(["Node 7 went from class 0 (0.91) to class 1 (0.87)."], lead=True),
                Facts([Fact("flips", "14", "of 5,881 nodes")]),
                Strips("Over time", STEPS, [Strip("flips", range(12)), Strip("edges expired", [0.0] * 12, "lost")]),
                Answers("March", [Answer(f"Node {HOSTILE}", ["Because of 3."], "steps/1.html"), Answer("Node 8")]),
                Table(
                    "Steps", [Column("Step"), Column("Predictions that flipped", number=True), Column("Part")],
                    [[Cell(step, href="x.html"), float(7 * place % 12), Cell("a bit", bar=0.3, note="of all")]
                     for place, step in enumerate(STEPS)],
                ),
                Prose([f"The folder is /a{'/very_long' * 12}."]),
                Details("The model", [Prose(["A GCN."], title="Its layers"), Table("None", [Column("a")], [[None]])]),
            ],
        )
    )  # fmt: skip
    return path


def test_it_is_whole_without_script(written, browser):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(written.as_uri())
    assert page.locator("table.sortable").first.locator("tbody tr").count() == 12
    assert page.locator(".answers li").count() == 2
    assert page.locator(".answers a").first.get_attribute("href") == "steps/1.html"
    assert "class 0 (0.91)" in page.inner_text(".lead")
    assert page.locator(".strip .columns").nth(0).get_attribute("aria-label").startswith("flips: 2012-01 0; 2012-02 1;")
    assert not page.locator("#find").is_visible()  # a search needs the script
    context.close()


def test_names_command_nothing_and_no_host_is_asked(written, open_page):
    page = open_page(written, viewport={"width": 400, "height": 800})
    assert page.complaints == []
    assert page.requests == [written.as_uri()]
    assert page.locator("img").count() == 0
    assert HOSTILE in page.inner_text(".answers li >> nth=0")
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_heads_break_between_words_alone(written, open_page):
    """On a narrow screen a head is as wide as its longest word: nothing is broken letter by letter."""
    page = open_page(written, viewport={"width": 400, "height": 800})
    heads = [head for head in page.locator("th button").all() if head.is_visible()]
    assert len(heads) == 3
    for head in heads:
        longest = max(head.inner_text().split(), key=len)
        assert head.bounding_box()["width"] >= 6 * len(longest), head.inner_text()
        assert head.bounding_box()["height"] <= 26 * len(head.inner_text().split())


def test_tables_sort_and_the_search_finds(written, open_page):
    page = open_page(written)
    column = page.locator("table.sortable").first.locator("tbody td:nth-child(2)")
    page.click("th button:text('Predictions that flipped')")
    assert column.all_inner_texts() == [str(n) for n in range(11, -1, -1)]
    page.click("th button:text('Predictions that flipped')")
    assert column.all_inner_texts() == [str(n) for n in range(12)]
    page.fill("#find", "node 8")
    assert page.locator(".findable:visible").all_inner_texts() == ["Node 8"]
    assert page.inner_text("#found").startswith("1 of ")
    page.fill("#find", "")
    assert page.locator(".findable:visible").count() == 14
