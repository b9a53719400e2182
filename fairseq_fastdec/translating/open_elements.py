"""The elements of an HTML document that are open at a place, by the rules of the HTML standard.

Many end tags can be omitted, and wrong ones are ignored. The rules are those of section 13.2.6 of
the standard, "Tree construction", as far as they decide which elements contain a text. Parsers that
build a tree search the open elements, which takes quadratic time for some documents.
"""

from collections import defaultdict, deque
from typing import Optional

HEADINGS = set("h1 h2 h3 h4 h5 h6".split())
VOID = set(
    "area base basefont bgsound br col embed frame hr image img input keygen link meta param "
    "source track wbr".split()
)
# Elements that stay open when an element around them is closed, until their own end tag.
FORMATTING = set("a b big code em font i nobr s small strike strong tt u".split())
SPECIAL = (
    set(
        "address applet area article aside base basefont bgsound blockquote body br button caption "
        "center col colgroup dd details dir div dl dt embed fieldset figcaption figure footer form "
        "frame frameset head header hgroup hr html iframe img input keygen li link listing main "
        "marquee menu meta nav noembed noframes noscript object ol p param plaintext pre script "
        "search section select source style summary table tbody td template textarea tfoot th "
        "thead title tr track ul wbr xmp".split()
    )
    | HEADINGS
)
# Elements of SVG and MathML have names with a slash here.
INTEGRATING = set("/foreignobject /desc /title /mi /mo /mn /ms /mtext".split())
SCOPE = set("applet caption html table td th marquee object template".split()) | INTEGRATING
# Elements inside which an element outside of them cannot be closed: the name of each such set.
BARRIERS = {
    "@scope": SCOPE,
    "@button": SCOPE | {"button"},
    "@list": SCOPE | {"ol", "ul"},
    "@table": {"html", "table", "template"},
    "@cell": {"caption", "html", "td", "template", "th"},
    "@special": SPECIAL | INTEGRATING,
    "@item": (SPECIAL | INTEGRATING) - {"address", "div", "p"},
    "@template": set(),
    # Formatting that is opened inside these elements ends with them.
    "@marker": set("applet caption marquee object td template th".split()),
}
ClosingRule = tuple[tuple[str, ...], str]
P: ClosingRule = (("p",), "@button")
SELECT: ClosingRule = (("select",), "@scope")
ROW = ("caption", "colgroup", "td", "th", "tr")
BODY = (*ROW, "tbody", "tfoot", "thead")
# For the start tag of an element, the elements that it closes, and the barrier.
CLOSED_BY: dict[str, list[ClosingRule]] = {
    **{
        tag: [P]
        for tag in (
            "address article aside blockquote center details dialog dir div dl fieldset figcaption "
            "figure footer form header hgroup hr listing main menu nav ol p plaintext pre search "
            "section summary ul xmp".split()
        )
    },
    **{tag: [P] for tag in HEADINGS},
    "li": [(("li",), "@item"), P],
    **{tag: [(("dd", "dt"), "@item"), P] for tag in ("dd", "dt")},
    "button": [(("button",), "@scope")],
    **{tag: [SELECT] for tag in ("input", "keygen", "select", "textarea")},
    "table": [P, (("table",), "@cell")],
    **{tag: [(BODY, "@table")] for tag in ("caption", "colgroup", "tbody", "tfoot", "thead")},
    "col": [(tuple(tag for tag in BODY if tag != "colgroup"), "@table")],
    "tr": [(ROW, "@table")],
    **{tag: [(("caption", "colgroup", "td", "th"), "@table")] for tag in ("td", "th")},
}
IMPLIED = set("dd dt li optgroup option p rb rp rt rtc".split())
OPTION, OPTIONS = ("", {"option"}), ("select", {"optgroup", "option"})
# For the start tag of an element, those that it closes while they are innermost, inside an element
# or anywhere.
ENDED_BY: dict[str, list[tuple[str, set[str]]]] = {
    **{tag: [("", HEADINGS)] for tag in HEADINGS},
    "hr": [OPTIONS],
    "optgroup": [OPTION, OPTIONS],
    "option": [OPTION],
    **{tag: [("ruby", IMPLIED)] for tag in ("rb", "rtc")},
    **{tag: [("ruby", IMPLIED - {"rtc"})] for tag in ("rp", "rt")},
}
# The barriers of end tags; those of other tags are special elements.
END_BARRIER = {
    **{
        tag: "@scope"
        for tag in (
            "address applet article aside blockquote button center dd details dialog dir div dl dt "
            "fieldset figcaption figure footer form header hgroup listing main marquee menu nav "
            "object ol pre search section select summary ul".split()
        )
    },
    **{tag: "@scope" for tag in HEADINGS},
    "p": "@button",
    "li": "@list",
    **{tag: "@table" for tag in ("table", "td", "th", *BODY)},
    "template": "@template",
}
# Of these elements there is one at a time.
SINGLE = {"body", "form", "head", "html"}
# Their end tags do not end the text in them.
ENDLESS = {"body", "html"}
IN_HEAD = set(
    "base basefont bgsound head html link meta noframes noscript script style template "
    "title".split()
)
# Special elements that do not end a line of text, before which formatting continues.
INLINE = set("applet button marquee object select textarea xmp".split()) | VOID - {"hr"}
# These HTML elements end SVG and MathML.
BREAKOUT = (
    set(
        "b big blockquote body br center code dd div dl dt em embed head hr i img li listing menu "
        "meta nobr ol p pre ruby s small span strong strike sub sup table tt u ul var".split()
    )
    | HEADINGS
)
# The maximum number of formatting elements that continue in the next element.
MOST_FORMATTING = 20
GROUPS = {
    tag: [name for name, tags in BARRIERS.items() if tag in tags]
    for tag in set().union(*BARRIERS.values())
}


class Element:
    """An element.

    Attributes:
        tag: the name; that of elements of SVG and MathML begins with a slash.
        is_translated: whether to translate its text; ``None`` if that depends on the elements
            around it.
        names: the tag, and the sets of elements that the element belongs to.
        suspended: formatting elements that were to continue when this element was opened.
    """

    def __init__(self, tag: str, is_translated: Optional[bool] = None) -> None:
        self.tag, self.is_translated = tag, is_translated
        self.is_open = True
        self.names = [tag, *GROUPS.get(tag, ())]
        if not tag.startswith("/"):
            self.names.append("@html")
        if is_translated is not None:
            self.names.append("@treated")
        if tag not in FORMATTING and "@special" not in self.names:
            self.names.append("@ordinary")
        self.suspended = deque[Element]()


class OpenElements:
    """The open elements at a place of a document, from the outermost to the innermost."""

    def __init__(self) -> None:
        self._elements = [Element("")]
        # The places in this list, by the names of the elements. Closed elements may be left in both
        # until they are innermost.
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        # Formatting elements that continue in the next text.
        self._continuing = deque[Element]()

    @property
    def is_translated(self) -> bool:
        """Whether to translate a text here."""
        place = self._last("@treated")
        return not place or bool(self._elements[place].is_translated)

    @property
    def is_preformatted(self) -> bool:
        """Whether line breaks count here."""
        return any(self._last(tag) for tag in ("listing", "pre", "textarea"))

    @property
    def is_foreign(self) -> bool:
        """Whether the next element belongs to SVG or MathML."""
        tag = self._innermost().tag
        return tag.startswith("/") and tag not in INTEGRATING

    def add_text(self) -> None:
        """Handle text other than white space."""
        self._end_head()
        self._continue_formatting()

    def open(self, tag: str, is_translated: Optional[bool], is_self_closing: bool) -> None:
        """Handle a start tag.

        Args:
            tag: the name in lower case.
            is_translated: see :class:`Element`.
            is_self_closing: whether the tag ends in ``/>``; HTML elements ignore it.
        """
        if tag in BREAKOUT:
            while self.is_foreign:
                self._close_innermost()
        if not self.is_foreign:
            if tag in SINGLE and self._last(tag):
                return
            if tag not in IN_HEAD:
                self._end_head()
            self._close_before(tag)
            if tag not in SPECIAL or tag in INLINE:
                self._continue_formatting()
        if self.is_foreign or tag in ("math", "svg"):
            if not is_self_closing:
                self._push(Element(f"/{tag}", is_translated))
        elif tag not in VOID:
            self._push(Element(tag, is_translated))

    def close(self, tag: str) -> None:
        """Handle an end tag, with the name in lower case."""
        foreign = self._last(f"/{tag}")
        if foreign > self._last("@html"):
            self._close_from(foreign)
        elif tag in FORMATTING:
            self._close_formatting(tag)
        elif tag not in ENDLESS:
            tags = tuple(HEADINGS) if tag in HEADINGS else (tag,)
            self._close_last(tags, END_BARRIER.get(tag, "@special"))

    def _last(self, name: str) -> int:
        """The innermost place of a tag or of a set of tags; 0 if there is none."""
        places = self._places[name]
        while places and not self._elements[places[-1]].is_open:
            places.pop()
        return places[-1] if places else 0

    def _innermost(self) -> Element:
        while not self._elements[-1].is_open:
            self._close_innermost()
        return self._elements[-1]

    def _push(self, element: Element) -> None:
        for name in element.names:
            self._places[name].append(len(self._elements))
        if "@marker" in element.names:
            element.suspended, self._continuing = self._continuing, element.suspended
        self._elements.append(element)

    def _close_innermost(self) -> None:
        self._close_from(len(self._elements) - 1)

    def _close_from(self, place: int) -> None:
        """Close an element and those inside it."""
        while len(self._elements) > place:
            element = self._elements.pop()
            for name in element.names:
                places = self._places[name]
                if places and places[-1] == len(self._elements):
                    places.pop()
            if "@marker" in element.names:
                self._continuing = element.suspended
            elif (
                element.is_open
                and element.tag in FORMATTING
                and len(self._continuing) < MOST_FORMATTING
            ):
                self._continuing.appendleft(element)

    def _close_last(self, tags: tuple[str, ...], barrier: str) -> bool:
        """Close the innermost element with one of the tags, unless there is a barrier inside it."""
        place = max(map(self._last, tags))
        is_closed = place > 0 and place >= self._last(barrier)
        if is_closed:
            self._close_from(place)
        return is_closed

    def _close_before(self, tag: str) -> None:
        """Close the elements that a start tag ends."""
        for tags, barrier in CLOSED_BY.get(tag, ()):
            while self._close_last(tags, barrier):
                pass
        for around, innermost in ENDED_BY.get(tag, ()):
            if not around or self._last(around) > self._last("@scope"):
                while self._innermost().tag in innermost:
                    self._close_innermost()
        if tag in ("a", "nobr"):
            self._close_formatting(tag)

    def _close_formatting(self, tag: str) -> None:
        """Close the innermost formatting element with a tag. Special elements in it stay open."""
        for element in reversed(self._continuing):
            if element.tag == tag:
                self._continuing.remove(element)
                return
        place = self._last(tag)
        if place <= max(self._last("@scope"), self._last("@marker")):
            return
        if self._last("@special") > place:
            while (other := self._last("@ordinary")) > place:
                self._elements[other].is_open = False
        else:
            self._close_from(place + 1)
        self._elements[place].is_open = False

    def _continue_formatting(self) -> None:
        while self._continuing:
            element = self._continuing.popleft()
            self._push(Element(element.tag, element.is_translated))

    def _end_head(self) -> None:
        if self._innermost().tag == "head":
            self._close_innermost()
