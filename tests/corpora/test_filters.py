"""Which pairs are left out."""

import pytest

from fairseq_fastdec.corpora.filters import Filters


def test_nothing_is_left_out_by_default():
    assert Filters().reason("a", "") is None
    assert Filters().reason("", "b " * 1000) is None


@pytest.mark.parametrize(
    "filters, translation, reason",
    [
        (Filters(drop_empty=True), "", "empty"),
        (Filters(drop_empty=True), "b", None),
        (Filters(longer_a=1.5, longer_b=2), "b b b b b", None),
        (Filters(longer_a=1.5, longer_b=2), "b b b b b b", "too long"),
        (Filters(longer_a=2), "b b b b b", "too long"),
        (Filters(longer_a=2), "b b b b", None),
        (Filters(longer_b=1), "b b", "too long"),
        (Filters(longer_b=0), "", None),
    ],
)
def test_rules(filters, translation, reason):
    assert filters.reason("a a", translation) == reason
