"""From Python, text becomes what fairseq's commands and its hub interface make of it."""

import pickle
import threading
from operator import eq

import pytest
import torch
from fairseq.models.transformer import TransformerModel
from fairseq.models.transformer_align import TransformerAlignModel
from fairseq.sequence_generator import SequenceGeneratorWithAlignment

import fairseq_fastdec
from fairseq_fastdec import SentenceError, Translation
from fairseq_fastdec.decoding.hypothesis import NotFinite

LINES = ["a b c", "j i", "c a b d e", "f", "h g f e d c b a"]
METHODS = ("greedy", "lookahead", "auto", "jacobi", "beam", "variable_beam", "streaming", "fairseq")
LANGUAGES = dict(source_lang="en", target_lang="de")
LONG = " ".join("a" * 2000)


@pytest.fixture(scope="module")
def translator(corpus, baseline):
    return fairseq_fastdec.load(baseline, corpus)


@pytest.fixture(scope="module")
def hub(corpus, baseline):
    return TransformerModel.from_pretrained(
        str(baseline.parent), baseline.name, str(corpus), tokenizer=None, bpe=None
    )


def test_strings_and_lists(translator, hub):
    expected = hub.translate(LINES, beam=1, decoding="fairseq")
    assert translator.translate(LINES) == expected
    assert [translator.translate(line) for line in LINES] == expected
    assert translator.translate(tuple(LINES)) == expected
    assert translator.translate([]) == []
    assert translator.translate(["", " ", " a  b c\n"]) == ["", "", expected[0]]
    assert translator.translate("") == ""


@pytest.mark.parametrize("method", METHODS)
def test_methods(translator, hub, method):
    beam = 1 if method in ("greedy", "lookahead", "auto", "jacobi") else 3
    options = dict(decoding=method, beam=beam, max_len_b=15)
    assert translator.translate(LINES, **options) == hub.translate(LINES, **options)


@pytest.mark.parametrize("limits", [dict(batch_size=2), dict(max_tokens=12), dict(batch_size=None)])
@pytest.mark.parametrize("method", ["greedy", "streaming"])
def test_batches(translator, limits, method):
    assert translator.translate(LINES, decoding=method, beam=1, **limits) == [
        translator.translate(line) for line in LINES
    ]


def test_nbest(translator, hub):
    expected = [
        [hub.decode(hypothesis["tokens"]) for hypothesis in best[:2]]
        for best in hub.generate([hub.encode(line) for line in LINES], beam=4, decoding="beam")
    ]
    assert translator.translate(LINES, beam=4, nbest=2) == expected
    assert translator.translate(LINES[0], beam=4, nbest=2) == expected[0]
    assert translator.translate("", nbest=2) == [""]
    (best, _) = translator.translate(LINES[0], beam=4, nbest=2, details=True)
    assert best.text == expected[0][0]


def test_details(translator, hub):
    (expected,) = hub.generate(hub.encode("a b c"), beam=1, decoding="fairseq")
    found = translator.translate("a b c", details=True)
    assert found.text == hub.decode(expected["tokens"])
    assert found.tokens == tuple(hub.string(expected["tokens"]).split())
    assert found.score == pytest.approx(float(expected["score"]), abs=1e-4)
    assert found.positional_scores == pytest.approx(
        expected["positional_scores"].tolist(), abs=1e-4
    )
    assert len(found.positional_scores) == len(found.tokens) + 1
    assert found.source_tokens == ("a", "b", "c")
    assert found.alignment is None and found.error is None
    assert translator.translate("", details=True) == Translation("")


@pytest.mark.parametrize("options", [dict(beam=1), dict(beam=3, nbest=2), dict(batch_size=2)])
def test_alignments_are_those_of_fairseq(translator, hub, options):
    found = translator.translate(LINES, details=True, alignment=True, **options)
    best = [one[0] if isinstance(one, list) else one for one in found]
    beam = options.get("beam", 1)
    expected = hub.generate(
        [hub.encode(line) for line in LINES], beam=beam, decoding="fairseq", print_alignment="hard"
    )
    for own, (stock, *_) in zip(best, expected):
        assert own.alignment == stock["alignment"] and own.alignment


def test_alignments_of_an_ensemble(translator, corpus, baseline, blockwise):
    paths = [baseline, blockwise]
    ensemble = fairseq_fastdec.load(paths, corpus)
    found = ensemble.translate(LINES, beam=2, details=True, alignment=True)
    generator = SequenceGeneratorWithAlignment(
        ensemble.models, ensemble.task.target_dictionary, beam_size=2
    )
    for line, own in zip(LINES, found):
        tokens = torch.tensor(ensemble.codec.encode(line))
        batch = ensemble.of_pair().batches.direct(tokens).single(tokens)
        ((stock, *_),) = generator.generate(ensemble.models, batch)
        assert own.alignment == stock["alignment"]


def test_alignments_of_a_model_that_learned_to_align(aligned):
    """They are those of the layer that learned it; fairseq's are those of the last layer."""
    data, checkpoint = aligned()
    translator = fairseq_fastdec.load(checkpoint, data)
    found = translator.translate(LINES, details=True, alignment=True)
    right = [[(len(own.tokens) - 1 - t, t) for t in range(len(own.tokens))] for own in found]
    pairs = sum(right, [])
    ours = sum((own.alignment for own in found), [])
    hub = TransformerAlignModel.from_pretrained(
        str(checkpoint.parent), checkpoint.name, str(data), tokenizer=None, bpe=None
    )
    theirs = hub.generate(
        [hub.encode(line) for line in LINES], beam=1, decoding="fairseq", print_alignment="hard"
    )
    stock = sum((best["alignment"] for best, *_ in theirs), [])
    shares = [sum(map(eq, own, pairs)) / len(pairs) for own in (ours, stock)]
    assert shares[0] > 0.9 and shares[0] >= shares[1] and ours != stock


def test_alignments_need_details(translator):
    with pytest.raises(ValueError, match="^alignment hard: requires details=True"):
        translator.translate("a", alignment=True)


def test_options_of_loading_are_those_of_all_calls(corpus, baseline, translator):
    own = fairseq_fastdec.load(baseline, corpus, decoding="beam", beam=3, nbest=2, max_len_b=4)
    assert own.translate(LINES) == translator.translate(LINES, beam=3, nbest=2, max_len_b=4)
    assert own.translate(LINES, beam=1, nbest=1) == translator.translate(LINES, max_len_b=4)


@pytest.mark.parametrize(
    "options, message",
    [
        (
            dict(decodign="greedy"),
            r"^decodign: not an option of translate\(\); did you mean decoding",
        ),
        (dict(prefix_size=1), "^prefix_size: only fairseq-generate"),
        (dict(decoding="fast"), "^--decoding fast: unknown"),
        (dict(decoding="greedy", beam=5), "^--beam 5: --decoding greedy keeps one hypothesis; rem"),
        (dict(decoding="greedy", nbest=2), "^--nbest above 1: not possible with --decoding greedy"),
        (dict(nbest=6), "^--nbest 6: more than --beam 5 finds"),
        (dict(beam=True), "^--beam True: must be a whole number of at least 1"),
        (dict(lookahead_window=2), "^--lookahead-window 2: does not apply to --decoding greedy"),
        (dict(batch_size=0), "^batch_size 0: must be a whole number of at least 1, or None"),
        (dict(max_tokens="a"), "^max_tokens 'a': must be"),
        (dict(batch_size=1.5), "^batch_size 1.5: must be"),
        (dict(print_alignment="hard"), "^print_alignment hard: .* give alignment=True and details"),
    ],
)
def test_options_are_checked(translator, corpus, baseline, options, message):
    translator.translate("a", beam=1)
    for text in ("a b", "", []) if options.get("beam") != 5 else ("a b",):
        with pytest.raises(ValueError, match=message):
            translator.translate(text, **options)
    if options.get("beam") != 5:
        with pytest.raises(ValueError, match=message):
            fairseq_fastdec.load(baseline, corpus, **options)


def test_what_is_no_text(translator):
    with pytest.raises(TypeError, match=r"^texts: sentence 1 \(from 0\) is of type NoneType; give"):
        translator.translate(["a", None])


def test_errors_stay_with_their_sentence(translator):
    a = translator.translate("a b c")
    with pytest.raises(SentenceError, match=r"^sentence 1 \(from 0\): too long: 2001 t.*\(1 more"):
        translator.translate(["a b c", LONG, "", LONG])
    with pytest.raises(SentenceError) as caught:
        translator.translate(["a b c", LONG, ""])
    assert caught.value.translations == [a, None, ""] and list(caught.value.errors) == [1]
    first, second, third = translator.translate(["a b c", LONG, ""], details=True)
    assert (first.text, first.error, third.text) == (a, None, "")
    assert second.text is None and second.error.startswith("too long: 2001 tokens")
    with pytest.raises(SentenceError, match="--max-tokens allows 3"):
        translator.translate("a b c", max_tokens=3)
    again = pickle.loads(pickle.dumps(second.error))
    assert again == second.error and again.kind == second.error.kind == "too long"


class Picky:
    """A BPE that does not take a word."""

    def encode(self, text):
        if "no" in text:
            raise KeyError(text)
        return text

    def decode(self, text):
        return text.upper()


def test_a_tokeniser_that_is_an_object(corpus, baseline, translator):
    own = fairseq_fastdec.load(baseline, corpus, bpe=Picky())
    a, bad = own.translate(["a b c", "no"], details=True)
    assert a.text == translator.translate("a b c").upper()
    assert bad.error == "not tokenised: the tokeniser or BPE raises KeyError: 'no'"


def test_scores_that_are_not_finite(translator, monkeypatch):
    step = type(translator.task).inference_step

    def lose_the_first(task, generator, models, batch, *rest):
        raise NotFinite([batch["id"][0].item()], step(task, generator, models, batch, *rest))

    expected = translator.translate(LINES)
    monkeypatch.setattr(type(translator.task), "inference_step", lose_the_first)
    found = translator.translate(LINES, details=True, batch_size=10)
    lost = [number for number, one in enumerate(found) if one.error]
    assert len(lost) == 1 and found[lost[0]].error.startswith("not finite")
    assert [one.text for one in found if not one.error] == [
        text for number, text in enumerate(expected) if number not in lost
    ]


def test_no_generator_is_built_twice(corpus, baseline, monkeypatch):
    translator = fairseq_fastdec.load(baseline, corpus)
    built, build = [], type(translator.task).build_generator

    def count(task, models, args, *rest, **others):
        built.append(args)
        return build(task, models, args, *rest, **others)

    monkeypatch.setattr(type(translator.task), "build_generator", count)
    for _ in range(3):
        translator.translate("a b c")
        translator.translate(LINES, decoding="lookahead")
        translator.translate(LINES, beam=2, lenpen=0.6)
    assert len(built) == 3


def test_threads_have_right_answers(translator):
    calls = [dict(decoding=method) for method in ("greedy", "lookahead", "auto", "jacobi")]
    calls += [dict(beam=2), dict(beam=3, nbest=2), dict(decoding="fairseq", beam=2), dict(beam=4)]
    expected = [translator.translate(LINES, **call) for call in calls]
    wrong = []

    def translate(first):
        for turn in range(10):
            number = (first + turn) % len(calls)
            try:
                found = translator.translate(LINES, **calls[number])
            except Exception as error:
                found = error
            if found != expected[number]:
                wrong.append((calls[number], found))

    threads = [threading.Thread(target=translate, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_every_call_draws_anew(translator):
    def drawn():
        return translator.translate(
            "a b c d e f g h", beam=1, sampling=True, temperature=3.0, max_len_b=12
        )

    torch.manual_seed(1)
    first = [drawn() for _ in range(3)]
    assert len(set(first)) > 1
    torch.manual_seed(1)
    assert [drawn() for _ in range(3)] == first
