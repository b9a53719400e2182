"""Alignments of checkpoints, bundles, streams and running batches."""

import asyncio

import numpy as np
import pytest

import fairseq_fastdec
from examples.common.en_de import MODEL
from fairseq_fastdec.tools.export import export
from fairseq_fastdec.translating.alignments import aligned as aligned_of
from tests.support.compiled import compiled
from tests.support.imported_models import FORMATS, written

pytestmark = compiled

LINES = [
    "Click the Save button.",
    "Don't close the document!",
    "x",
    "Format - Cells - Numbers",
]
KINDS = ("hard", "soft")


@pytest.fixture(scope="module")
def translator():
    return fairseq_fastdec.load(MODEL)


@pytest.mark.parametrize("options", [{}, dict(beam=4), dict(decoding="blockwise")])
def test_hard_alignments_of_all_calls_are_the_same(translator, bundle, options):
    """Those of one call are decoded alone, and those of a list in whole batches."""
    given = dict(details=True, alignment=True, **options)
    expected = [translator.translate(line, **given).alignment for line in LINES]
    assert all(expected)
    assert [own.alignment for own in translator.translate(LINES, **given)] == expected
    streams = [translator.translate_stream(LINES, alignment="hard", **options)]
    if "decoding" not in options:
        assert [own.alignment for own in bundle.translate(LINES, **given)] == expected
        assert bundle.translate(LINES[0], **given).alignment == expected[0]
        streams.append(bundle.translate_stream(LINES, alignment="hard", **options))
    for stream in streams:
        assert [own.alignment for _, own in stream] == expected
    found = asyncio.run(translator.translate_async(LINES[0], **given))
    assert found.alignment == expected[0]


def test_soft_alignments_are_probabilities(translator, bundle):
    for own in (translator, bundle):
        for found in own.translate(LINES, details=True, alignment="soft"):
            shape = len(found.tokens) + 1, len(found.source_tokens) + 1
            assert np.shape(found.alignment) == shape
            assert np.sum(found.alignment, axis=1) == pytest.approx(1, abs=1e-5)
    hard = translator.translate(LINES, details=True, alignment="hard")
    soft = translator.translate(LINES, details=True, alignment="soft")
    for one, other in zip(hard, soft):
        best = np.array(other.alignment)[:-1, :-1].argmax(axis=1)
        assert one.alignment == list(zip(best.tolist(), range(len(one.tokens))))


def test_sentences_with_and_without_alignments_share_batches(translator):
    async def run():
        calls = [
            translator.translate_async(line, details=True, alignment=kind)
            for line in LINES
            for kind in (False, True)
        ]
        return await asyncio.gather(*calls)

    found = asyncio.run(run())
    expected = translator.translate(LINES, details=True, alignment=True)
    assert [own.alignment for own in found[::2]] == [None] * len(LINES)
    assert [own.alignment for own in found[1::2]] == [own.alignment for own in expected]


@pytest.mark.parametrize("kind", KINDS)
def test_alignments_need_details(bundle, kind):
    for call in (bundle.translate, lambda *own, **given: asyncio.run(
        bundle.translate_async(*own, **given)
    )):  # fmt: skip
        with pytest.raises(ValueError, match=f"^alignment {kind}: requires details=True"):
            call(LINES[0], alignment=kind)


@pytest.mark.parametrize("value", ["yes", 2, None, [], 1.0])
def test_kinds_that_do_not_exist(translator, bundle, value):
    for own in (translator, bundle):
        with pytest.raises(ValueError, match="^alignment .*: must be True, False, 'hard' or 'so"):
            own.translate(LINES[0], details=True, alignment=value)


def test_a_model_that_learned_to_align(aligned, tmp_path):
    data, checkpoint = aligned()
    own = fairseq_fastdec.load(checkpoint, data)
    export(own, tmp_path / "model.fastdec")
    own_bundle = fairseq_fastdec.load(tmp_path / "model.fastdec")
    lines = ["a b c", "j i h g", "d"]
    for found in own_bundle.translate(lines, details=True, alignment=True):
        n = len(found.source_tokens)
        assert found.alignment == [(n - 1 - t, t) for t in range(n)]


def test_a_model_of_the_full_context(aligned, tmp_path):
    data, checkpoint = aligned("--full-context-alignment")
    own = fairseq_fastdec.load(checkpoint, data)
    found = own.translate("a b c", details=True, alignment=True)
    assert found.alignment == [(2, 0), (1, 1), (0, 2)]
    assert own.translate(["a b c"], details=True, alignment=True) == [found]
    export(own, tmp_path / "model.fastdec")
    own_bundle = fairseq_fastdec.load(tmp_path / "model.fastdec")
    assert own_bundle.translate("a b c") == found.text
    with pytest.raises(ValueError, match="^alignment hard: .* translate with its checkpoint"):
        own_bundle.translate("a b c", details=True, alignment=True)


@pytest.mark.parametrize("format", FORMATS)
def test_tokens_of_languages_are_not_aligned(format, tmp_path):
    own = fairseq_fastdec.load(written(tmp_path / "model", format))
    given = dict(details=True, max_len_b=8, max_len_a=0)
    if own.languages is not None and own.languages.tokens:
        given |= dict(source="eng_Latn", target="fra_Latn")
    lines = ["w1 w2 w3", "w5"]
    export(own, tmp_path / "model.fastdec")
    both = [own, fairseq_fastdec.load(tmp_path / "model.fastdec")]
    for translator in both:
        for texts in (lines, lines[:1]):  # a whole batch, and a sentence alone
            found = [translator.translate(texts, alignment=kind, **given) for kind in KINDS]
            for hard, soft in zip(*found):
                shape = len(hard.tokens) + 1, len(hard.source_tokens) + 1
                assert np.shape(soft.alignment) == shape
                assert [target for _, target in hard.alignment] == list(range(len(hard.tokens)))
                assert np.sum(soft.alignment, axis=1) == pytest.approx(1, abs=1e-5)
    found = [own.translate(lines, alignment="soft", **given) for own in both]
    for one, other in zip(*found):
        np.testing.assert_allclose(one.alignment, other.alignment, atol=1e-6)


def test_places_of_subwords():
    attention = np.array([[0.5, 0.1, 0.4], [0.1, 0.2, 0.7], [0.2, 0.2, 0.6]], dtype=np.float32)
    assert aligned_of(attention, [0, 1], [0, 1], "hard") == [(0, 0), (1, 1)]
    assert aligned_of(attention, [0, 2], [1], "hard") == [(1, 0)]
    assert aligned_of(attention, [], [0], "hard") == []
    assert aligned_of(attention, [0], [], "hard") == []
    soft = aligned_of(attention, [0, 2], [1], "soft")
    np.testing.assert_allclose(soft, [[0.1, 0.7, 0.2], [0.2, 0.6, 0.2]])
