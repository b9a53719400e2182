"""The HTML page: nothing from outside, and no token becomes markup."""

import html.parser
import json
import re

from fairseq_fastdec.visualize import SentenceTrace, Step, document, page

NASTY = ["</script><b>", "<!--", "\"'&amp;", "\u2028", "שלום@@", "</s>"]


def nasty_trace():
    steps = [Step(n, [], [token], [0.5], 1) for n, token in enumerate(NASTY)]
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
