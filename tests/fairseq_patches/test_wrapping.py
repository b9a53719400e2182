"""Wrapped functions."""

from types import SimpleNamespace

from fairseq_fastdec.fairseq_patches.wrapping import wrap


def doubled(function, *args, **kwargs):
    return 2 * function(*args, **kwargs)


def increased(function, *args, **kwargs):
    return 1 + function(*args, **kwargs)


def test_each_wrapper_is_applied_once():
    owner = SimpleNamespace(length=lambda text, more=0: len(text) + more)
    length = owner.length
    for around in (doubled, increased, doubled, increased):
        wrap(owner, "length", around)
    assert owner.length("abc", more=1) == 1 + 2 * 4
    assert owner.length.__wrapped__.__wrapped__ is length


def test_methods():
    class Word(str):
        def length(self):
            return len(self)

    wrap(Word, "length", doubled)
    assert Word("abc").length() == 6
