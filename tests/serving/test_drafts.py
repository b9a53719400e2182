"""Drafts in calls from Python: the model's own translations, in fewer steps."""

import asyncio

import pytest
import torch

import fairseq_fastdec

LINES = [
    "Click the Save button.",
    "",
    "Don't close the document!",
    "Choose Tools - Options, and then select the fonts that you want to use in new documents.",
]
EARLIER = [
    "Klicken Sie auf die Schaltfl\u00e4che Speichern.",
    "nichts",
    None,
    ["Wählen Sie Extras - Optionen.", "und wählen Sie dann die Schriftarten aus, die Sie"],
]


@pytest.fixture(params=["checkpoint", "bundle"])
def either(request, translator, bundle):
    return {"checkpoint": translator, "bundle": bundle}[request.param]


def test_they_change_no_translation(either):
    expected = either.translate(LINES)
    assert either.translate(LINES, drafts=EARLIER) == expected
    for line, draft, alone in zip(LINES, EARLIER, expected):
        assert either.translate(line, drafts=draft) == alone
        assert asyncio.run(either.translate_async(line, draft=draft)) == alone


def test_a_translation_memory(translator, bundle, bundle_path, tmp_path):
    """It gives the same drafts as with a checkpoint, and both use the same index."""
    lines = [line for line in LINES if line]
    expected = bundle.translate(lines)
    files = {"memory_source": tmp_path / "old.en", "memory_target": tmp_path / "old.de"}
    for path, texts in zip(files.values(), (lines, expected)):
        path.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    remembering = fairseq_fastdec.load(bundle_path, **files)
    assert remembering.translate(lines) == expected
    for line, translation in zip(lines, expected):
        (found,) = {
            tuple(own.job(line, options, None).sentence.draft)
            for own, options in (
                (remembering, {}),
                (translator, {name: str(path) for name, path in files.items()}),
            )
        }
        assert list(found) == translator.codec.draft([translation])
        # A draft of the caller comes first, and beams verify none.
        assert list(remembering.job(line, {}, ["x"]).sentence.draft) != list(found)
        assert remembering.job(line, {"beam": 3}).sentence.draft is None
    assert len(list(tmp_path.glob("old.de.memory-*"))) == 1


@pytest.mark.parametrize(
    "given, message",
    [
        (dict(memory_source="a"), "^memory_target: missing"),
        (dict(memory_target="a"), "^memory_source: missing"),
        (dict(memory_source="nowhere", memory_target="b"), "nowhere: cannot be read"),
        (dict(memory_source="a", memory_target="b", beam=3), "does not verify drafts; choose"),
    ],
)
def test_memories_that_are_refused(bundle_path, given, message):
    with pytest.raises(ValueError, match=message):
        fairseq_fastdec.load(bundle_path, **given)


def test_a_stream_of_sentences_and_drafts(either):
    found = list(either.translate_stream(iter(LINES), drafts=iter(EARLIER)))
    assert [own.text for _, own in found] == either.translate(LINES)
    with pytest.raises(ValueError, match="^drafts: fewer than texts; give one for each text"):
        list(either.translate_stream(LINES, drafts=EARLIER[:-1]))
    with pytest.raises(ValueError, match="^drafts: more than texts; give one for each text"):
        list(either.translate_stream(LINES, drafts=[*EARLIER, None]))
    with pytest.raises(TypeError, match="^drafts: is a single text; give an iterable"):
        list(either.translate_stream(LINES, drafts="x" * len(LINES)))
    with pytest.raises(ValueError, match="drafts: only with"):
        list(either.translate_stream(LINES, drafts=EARLIER, beam=3))
    assert either.queued() == (0, 0)


@pytest.mark.parametrize("decoding", ["blockwise", "lookahead", "auto"])
def test_with_other_methods(translator, decoding):
    line = LINES[0]
    call = dict(drafts=EARLIER[0], decoding=decoding)
    assert translator.translate(line, **call) == translator.translate(line)


def test_right_drafts_take_one_step(translator):
    """A step of the decoder for a sentence, where there was one for each token."""
    generator = translator.built({"decoding": "greedy"})
    source = torch.tensor(translator.codec.encode(LINES[0]))
    draft = torch.tensor(translator.codec.draft([translator.translate(LINES[0])]))
    (batch,) = translator.of_pair().batches.of(generator, [source], 1, None)
    generator.generate(translator.models, dict(batch, drafts=[draft]))
    assert generator.statistics.row_invocations == 1


@pytest.mark.parametrize(
    ("texts", "call", "error", "message"),
    [
        (LINES[0], dict(drafts="x", beam=3), ValueError, "drafts: only with decoding greedy"),
        (LINES, dict(drafts=["x"]), ValueError, "must be one for each of 4 sentences"),
        (LINES, dict(drafts="x"), ValueError, "must be one for each of 4 sentences"),
        (LINES[0], dict(drafts=1.5), TypeError, "drafts: must be"),
        (LINES[0], dict(drafts=[1]), TypeError, "must be strings"),
    ],
)
def test_errors(either, texts, call, error, message):
    with pytest.raises(error, match=message):
        either.translate(texts, **call)


def test_fairseqs_generator_verifies_none(translator):
    with pytest.raises(ValueError, match="not supported by decoding fairseq"):
        translator.translate(LINES, drafts=EARLIER, decoding="fairseq")
    with pytest.raises(ValueError, match="give drafts="):
        translator.translate(LINES, draft_file="drafts")
