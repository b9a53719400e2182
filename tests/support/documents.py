"""HTML documents with inline tags, drawn by hypothesis, and what browsers see of them."""

from html.parser import HTMLParser

from hypothesis import strategies as st


class Parsed(HTMLParser):
    """The text of a document, whose tags have to be those of whole elements."""

    def __init__(self, document):
        super().__init__(convert_charrefs=True)
        self.opened, self.tags, self.text = [], set(), ""
        self.feed(document)
        self.close()
        assert not self.opened

    def handle_starttag(self, tag, attributes):
        self.tags.add((tag, *attributes))
        if tag not in ("img", "wbr"):
            self.opened.append(tag)

    def handle_endtag(self, tag):
        assert self.opened.pop() == tag

    def handle_data(self, data):
        self.text += data


NAMES = st.sampled_from(["b", "i", "a href='?x=1&amp;y'", "span class=c"])


def content_of(words):
    """Content of a paragraph, with words of a strategy."""
    return st.recursive(
        words | st.just("<img src=x>") | st.just(" "),
        lambda inner: st.lists(
            st.tuples(NAMES, st.lists(inner, max_size=3)).map(
                lambda own: f"<{own[0]}>{''.join(own[1])}</{own[0].split()[0]}>"
            )
            | inner,
            max_size=4,
        ).map("".join),
        max_leaves=12,
    )
