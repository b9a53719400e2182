"""Requests of 100,000 characters that are made to take long."""

import random
import string

N = 100_000
LETTERS = "".join(random.Random(1).choices(string.ascii_lowercase, k=N))


def repeated(part):
    """A text of the full length."""
    return (part * (N // len(part) + 1))[:N]


TEXTS = {
    "spaces": "Open" + " " * (N - 6) + "it",
    "spaces and line breaks": repeated("a" + " " * 300 + "\n" + " " * 300),
    "full stops of Chinese": repeated("中。"),
    "Japanese": repeated("これは改行のない日本語の文章です、文はまだ終わりません、"),
    "sentences of Hindi": repeated("क।"),
    "full stops": repeated("."),
    "abbreviations": repeated("Mr. A. B. e.g. i.e. 1. a.m. "),
    "quotes and brackets": repeated("«\"'(「a。」[{"),
    "open quotes": repeated('"a. «b. “c. '),
    "line breaks": repeated("\n"),
    "short lines": repeated("a\r\n"),
    "line separators": repeated("a\u2028\x85\x0b"),
    "combining marks": repeated("e\u0301\u0300\u20dd"),
    "emoji": repeated("👩‍👩‍👧‍👦\ufe0f"),
    "one word": LETTERS,
    "words": " ".join(LETTERS[i : i + 7] for i in range(0, 87_500, 7)),
    "numbers": repeated("1,000.00-"),
    "punctuation": repeated("?!…'`~,;:@#$%^*|\\"),
    "byte order marks": repeated("\ufeff a\ufeff "),
    "right to left": repeated("\u202eשלום. مرحبا؟ "),
}
DOCUMENTS = {
    "spaces": TEXTS["spaces"],
    "spaces and line breaks": TEXTS["spaces and line breaks"],
    "less-than signs": repeated("<"),
    "references": repeated("&amp;&#x41;&notit;&"),
    "ampersands": repeated("&"),
    "digits of a reference": "&#" + repeated("9")[2:],
    "nested elements": repeated("<b><div>"),
    "closed elements": repeated("<b><div></b>a"),
    "elements that others end": repeated("<p><li><td><option>a"),
    "formatting": "<b>" * 50 + repeated("<p>a")[150:],
    "end tags": "<p>" * 1000 + repeated("</b>")[3000:],
    "attributes": "<p translate" + repeated(" a=b")[12:],
    "an attribute without an end": repeated('<a href="'),
    "spaces in a tag": "<p translate=" + repeated(" ")[13:],
    "comments": repeated("<!-- --><!--"),
    "texts": repeated("a<br>"),
    "SVG": repeated("<svg><desc><p>"),
    "raw text": repeated("<script></p>"),
    "CDATA": "<svg>" + repeated("<![CDATA[")[5:],
}
