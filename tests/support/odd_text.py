"""A hypothesis strategy for text that triggers rules of tokenisers."""

from hypothesis import strategies as st

PIECES = [
    *"abzAZ019äßΩжあ字가क½²٣ ,.-'`\"&|<>[]/:;!?%$€_\t\r\n\u00a0\u2028\u200d\u0301\u064b\x00\x1c😀",
    "U.S.A.", "e.g.", "No.", "z.B.", "1,000", "a,", "d'", "'s", "--", "...", "<b>", "&amp;", "@@",
    "</w>", "DOTMULTI", "@-@", "http://a.b/c-d?e=f,g", "<unk>", "</s>", "שלום", "مرحبا", " word ",
]  # fmt: skip

texts = st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join))
