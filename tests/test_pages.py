"""The documents hold together: links, figures, paths, and what they say of the code."""

import re

import pytest

from tests.support import snippets
from tests.support.floors import FLOORS
from tests.support.snippets import DOCUMENTS, FRONT_PAGE, PAGES, ROOT

ARCHITECTURE = ROOT / "docs" / "architecture.md"
PERFORMANCE = ROOT / "docs" / "performance.md"
EXAMPLE = ROOT / "tests" / "support" / "example_method.py"


def name_of(document):
    return str(document.relative_to(ROOT))


def text_of(document):
    return document.read_text(encoding="utf-8")


def sections(document):
    """The texts of a document's second-level sections, by their headings."""
    parts = re.split(r"(?m)^## (.+)$", text_of(document))
    return dict(zip(parts[1::2], parts[2::2]))


def test_the_front_page_is_short_and_in_order():
    assert len(text_of(FRONT_PAGE).splitlines()) <= 80
    assert list(sections(FRONT_PAGE)) == [
        "Install and try", "Use", "Which method", "Guarantees", "Limits", "More",
    ]  # fmt: skip


def test_ci_runs_the_second_command():
    second = snippets.blocks(FRONT_PAGE, "sh")[1]
    assert second in text_of(ROOT / ".ci" / "run")


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(document):
    for link in snippets.links(document):
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), f"{link}: there is no such file"
        if anchor:
            page = target / "README.md" if target.is_dir() else target
            assert anchor in snippets.anchors(page), f"{link}: there is no such heading"


def test_every_page_can_be_reached_from_the_front_page():
    reached, left = set(), [FRONT_PAGE]
    while left:
        document = left.pop()
        if document in reached:
            continue
        reached.add(document)
        for link in snippets.links(document):
            target = (document.parent / link.partition("#")[0]).resolve()
            page = target / "README.md" if target.is_dir() else target
            if page.suffix == ".md" and page.exists():
                left.append(page)
    assert set(PAGES) <= reached


def test_links_are_found():
    found = [link for document in DOCUMENTS for link in snippets.links(document)]
    assert len(found) > 80
    assert "performance.md#whole-commands" in str(found)


@pytest.mark.parametrize("document", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=name_of)
def test_paths_exist(document):
    named = re.findall(r"`((?:fairseq_fastdec|tests|scripts|examples)/[\w./]*)`", text_of(document))
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_figure_of_speed_has_its_date_machine_commit_and_command():
    for title, text in sections(PERFORMANCE).items():
        if title == "Tables in the examples":
            continue
        words = " ".join(text.split())
        provenance = (
            r"(20\d\d-\d\d-\d\d(, )?)+ · [^·|]*machine [A-Z][^·|]* · [^·|]*commits? "
            r"[0-9a-f]{7}[^·|]* · [^|]*(`(python|fairseq-)|command)"
        )
        assert re.match(provenance, words), title


@pytest.mark.parametrize("document", [FRONT_PAGE, *PAGES], ids=name_of)
def test_factors_are_those_of_the_page_of_figures(document):
    """What a page says of speed, 3.8x, stands with its origin in docs/performance.md."""
    measured = factors(PERFORMANCE)
    assert factors(document) <= measured


def factors(document):
    return set(re.findall(r"\b\d+(?:\.\d+)?x\b", snippets.prose(document)))


def test_the_architecture_tells_the_floors():
    rows = re.findall(r"(?m)^\| (`[^|]+|\*[^|]+) \|", sections(ARCHITECTURE)["The floors"])
    told = [set(re.findall(r"`([\w.]+)`", row)) or {""} for row in rows]
    assert told == [set(names) for names in FLOORS]


def test_twelve_places_are_two_links_away():
    rows = re.findall(r"(?m)^\| Where .+\? \| (.+) \|$", sections(ARCHITECTURE)["Where is it?"])
    assert len(rows) == 12
    assert all("](../fairseq_fastdec/" in row for row in rows)
    assert "docs/architecture.md" in snippets.links(FRONT_PAGE)


def test_the_example_of_a_method_is_the_one_that_is_tested():
    block, _ = snippets.blocks(ARCHITECTURE, "python")
    assert block == text_of(EXAMPLE)
