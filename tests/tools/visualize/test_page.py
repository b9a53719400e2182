"""The HTML page: nothing from outside, and no token becomes markup."""

import html.parser
import json
import re
import shutil
import subprocess

import pytest

from fairseq_fastdec.tools.visualize import SentenceTrace, TraceStep, document, page
from tests.support import skips

NASTY = ["</script><b>", "<!--", "\"'&amp;", "\u2028", "שלום@@", "</s>"]


def nasty_trace():
    steps = [TraceStep(n, [], [token], [0.5], 1) for n, token in enumerate(NASTY)]
    return SentenceTrace(0, NASTY, NASTY, steps, "greedy")


class Elements(html.parser.HTMLParser):
    """The tags of a page with their attributes, and what its data element holds."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.data, self.inside = [], "", False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.inside = dict(attributes).get("id") == "data"

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.data += data


def test_tokens_stay_data():
    nasty, plain = Elements(page.write([nasty_trace()])), Elements(page.write([]))
    assert nasty.tags == plain.tags
    assert document.read(nasty.data) == [nasty_trace()]
    assert json.loads(plain.data)["sentences"] == []


def test_nothing_is_fetched():
    text = page.write([nasty_trace()])
    for _, attributes in Elements(text).tags:
        assert not {"src", "href", "srcset", "data", "action"} & set(attributes)
    assert not re.search(r"@import|url\(|\bfetch\b|XMLHttpRequest|import\(", text)
    addresses = set(re.findall(r"https?://[^\"\s]*", text))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, which nobody looks up


def test_the_script_makes_no_markup_of_texts():
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write", page.write([]))


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
PROBE = """<script>
const cells = [...document.querySelector("thead tr").cells];
document.body.dataset.right = cells.at(-1).getBoundingClientRect().right;
document.body.dataset.labels = JSON.stringify(
  [...document.querySelectorAll("thead bdi")].map(label => label.textContent).filter(Boolean));
</script>"""


@pytest.fixture
def rendered(tmp_path):
    """A function that shows a page in a window of 1,400 pixels; it returns what a probe says."""
    if CHROMIUM is None:
        pytest.skip(skips.BROWSER)

    def render(trace):
        path = tmp_path / "page.html"
        path.write_text(page.write([trace]) + PROBE, encoding="utf-8")
        command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
        command += ["--window-size=1400,900", f"--user-data-dir={tmp_path / 'profile'}"]
        done = subprocess.run(
            [*command, path.as_uri()], capture_output=True, encoding="utf-8", timeout=120
        )
        body = next(values for tag, values in Elements(done.stdout).tags if tag == "body")
        return float(body["data-right"]), json.loads(body["data-labels"])

    return render


def greedy_trace(tokens, subwords="show"):
    steps = [TraceStep(n, [], [token], [0.5], 1) for n, token in enumerate(tokens)]
    return SentenceTrace(0, ["a", "</s>"], tokens, steps, "greedy", subwords)


def test_the_last_column_is_visible_at_1400_pixels(rendered):
    pieces = ["Das", "Auswahl@@", "fenster", "zeigt", "die", "Datenbank@@", "felder"]
    for n_tokens in (7, 21, 33):
        right, labels = rendered(greedy_trace((pieces * 5)[: n_tokens - 1] + ["</s>"]))
        assert len(labels) == n_tokens and right <= 1400


def test_subwords_are_joined_on_the_page(rendered):
    _, labels = rendered(greedy_trace(["Rah@@", "men", ".", "</s>"], "join"))
    assert labels == ["Rah", "men", ".", "</s>", "Rahmen"]
    _, labels = rendered(greedy_trace(["Rah@@", "men", ".", "</s>"], "mark"))
    assert labels == ["Rah·", "men", ".", "</s>"]
