"""fairseq's other tasks with --decoding: the same tokens and scores as without the plugin.

M2M-100's way (a token of the language at both sides), a model for each pair of languages, mBART's
(sentences end with their language), BART's summaries and speech, each with a model of its own.
"""

import re

import numpy as np
import pytest
import torch
from fairseq.models.bart import BARTModel
from fairseq.models.multilingual_transformer import MultilingualTransformerModel
from fairseq.models.speech_to_text import S2TTransformerModel
from fairseq.models.transformer import TransformerModel
from fairseq.ngram_repeat_block import NGramRepeatBlock
from fairseq_cli import interactive as interactive_cli

from tests.support import command_line, other_tasks
from tests.support.command_line import hypotheses
from tests.support.other_tasks import assert_same, sentences

TESTED = [" ".join(words) for words in sentences("test")]


@pytest.mark.parametrize("decoding", ["greedy", "lookahead"])
def test_one_hypothesis(trained, greedy_of, decoding):
    printed = trained.fast("--decoding", decoding, "--batch-size", 8)
    assert_same(printed, greedy_of(trained))


def test_beams_and_ensembles(trained):
    """All hypotheses, with some of fairseq's own options."""
    options = ["--beam", 3, "--nbest", 3, "--lenpen", 0.7, "--max-len-b", 12, "--batch-size", 8]
    theirs = trained.stock(*options, members=2)
    assert len(re.findall("(?m)^H-", theirs)) == 3 * other_tasks.SPLITS["test"]
    assert_same(trained.fast("--decoding", "beam", *options, members=2), theirs)


def test_repeated_ngrams(trained, monkeypatch):
    """fairseq's rule, which as it is called compares with padding, is shown the tokens so far."""
    rule = NGramRepeatBlock._no_repeat_ngram

    def of_tokens_so_far(self, tokens, lprobs, bsz, beam_size, step):
        return rule(self, tokens[:, : step + 1], lprobs, bsz, beam_size, step)

    monkeypatch.setattr(NGramRepeatBlock, "_no_repeat_ngram", of_tokens_so_far)
    options = ["--min-len", 12, "--max-len-b", 14, "--batch-size", 8, "--gen-subset", "valid"]
    for beam, decoding in ((1, "lookahead"), (3, "beam")):
        plain, theirs = (
            trained.stock("--beam", beam, *options, "--no-repeat-ngram-size", size)
            for size in (0, 2)
        )
        assert hypotheses(plain) != hypotheses(theirs)
        asked = ["--no-repeat-ngram-size", 2, *(["--beam", 3] if beam > 1 else [])]
        assert_same(trained.fast("--decoding", decoding, *options, *asked), theirs)


def test_streams(trained):
    """Without a limit that depends on the batch, fairseq's hypotheses in another order of work."""
    options = ["--beam", 3, "--max-len-b", 12, "--gen-subset", "valid"]
    same = ["--finalize", "fairseq", "--prune-threshold", "inf", "--max-candidates", 100]
    ours = trained.fast("--decoding", "streaming", *same, *options, "--batch-size", 4)
    theirs = trained.stock(*options, "--batch-size", 1)
    if trained.task == "speech_to_text":  # whose convolutions see the padding of their batch
        assert hypotheses(ours).keys() == hypotheses(theirs).keys()
    else:
        assert_same(ours, theirs)


def test_prefixes(trained):
    """What --prefix-size forces takes the place of what the task would."""
    options = ["--prefix-size", 2, "--batch-size", 4, "--gen-subset", "valid"]
    theirs = trained.stock("--beam", 1, *options)
    assert_same(trained.fast("--decoding", "greedy", *options), theirs)


def test_interactive(trained, tmp_path):
    lines = TESTED[:9]
    if trained.task == "speech_to_text":
        lines = [str(trained.data / f"test{number}.npy") for number in range(9)]
    elif trained.task == "translation":
        lines = [f"<s> {line}" for line in lines]
    path = tmp_path / "input.txt"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    options = ["--input", path, "--buffer-size", 4, "--batch-size", 4]
    ours = trained.command(interactive_cli, trained.task, "--decoding", "greedy", *options)
    theirs = trained.command(interactive_cli, trained.task, "--beam", 1, *options)
    assert len(hypotheses(theirs)) == 9
    assert_same(ours, theirs)


HUBS = {
    "many_to_many": (TransformerModel, dict(source_lang="xx", target_lang="yy"), "__yy__ {}"),
    "multilingual": (MultilingualTransformerModel, dict(source_lang="xx", target_lang="zz"), "{}"),
    "mbart": (TransformerModel, {}, "{} [yy]"),
}


@pytest.mark.parametrize("name", HUBS)
def test_the_hub_interface(name, greedy_of, request):
    """In fairseq, whose hub has an argument that these tasks do not take, most of them fail."""
    trained = request.getfixturevalue(name)
    model, options, text = HUBS[name]
    hub = model.from_pretrained(
        str(trained.paths[0].parent), trained.paths[0].name, str(trained.data),
        tokenizer=None, bpe=None, **options,
    )  # fmt: skip
    expected = hypotheses(greedy_of(trained))
    translated = hub.translate(TESTED, decoding="greedy", beam=1)
    assert translated == [text.format(expected[number]) for number in range(len(TESTED))]
    with pytest.raises(ValueError, match="^decodign: not an option of the hub interface"):
        hub.translate("a b", decodign="greedy")


def test_the_hub_interface_of_bart(bart):
    """Its ``sample`` forces <s>, and pads sentences before they are batched."""
    hub = BARTModel.from_pretrained(
        str(bart.paths[0].parent), bart.paths[0].name, str(bart.data), bpe="characters",
        task="translation",
    )  # fmt: skip
    texts = [text.replace(" ", "") for text in TESTED]
    # After several beams, fairseq's attention in BART fails with one.
    for decoding, options in (
        ("greedy", dict(beam=1, max_len_b=14)),
        ("beam", dict(beam=4, lenpen=2.0, max_len_b=14, min_len=3)),
        ("beam", dict(beam=2, max_len_b=14)),
    ):
        expected = hub.sample(texts, **options)
        assert len(set(expected)) > len(texts) // 3
        assert hub.sample(texts, decoding=decoding, **options) == expected


def test_the_hub_interface_of_speech(speech):
    hubs = [
        S2TTransformerModel.from_pretrained(
            str(speech.paths[0].parent), speech.paths[0].name, str(speech.data), **options
        )
        for options in ({}, dict(decoding="beam"))
    ]
    for number in range(5):
        frames = torch.from_numpy(np.load(speech.data / f"test{number}.npy"))[None]
        assert hubs[1].predict(frames) == hubs[0].predict(frames)


def test_validation_with_bleu(mbart, tmp_path, caplog):
    """Of these tasks mBART's alone has it in fairseq."""

    def bleu(decoding):
        caplog.clear()
        with caplog.at_level("INFO"):
            command_line.train(
                mbart.data, tmp_path / decoding, "--task", mbart.task,
                "--arch", "mbart_base", *mbart.options, "--finetune-from-model", mbart.paths[0],
                "--decoding", decoding, "--eval-bleu",
                "--eval-bleu-args", '{"beam": 1, "max_len_b": 12}', updates=1, lr="1e-9",
            )  # fmt: skip
        (line,) = (r.getMessage() for r in caplog.records if "| bleu " in r.getMessage())
        assert ("tokens_per_invocation 1" in line) == (decoding == "greedy")
        return float(re.search(r"\| bleu ([\d.]+)", line).group(1))

    assert 0 < bleu("greedy") == bleu("fairseq") < 100


def test_what_speech_cannot_do(speech):
    for options, message in (
        (["lookahead", "--guess", "source"], "--guess source: the model's sources are not tokens"),
        (["jacobi", "--guess", "copy"], "--guess copy: the model's sources are not tokens"),
        (["greedy", "--shortlist", "f"], "--shortlist f: the model's sources are not tokens"),
    ):
        with pytest.raises(ValueError, match=message):
            speech.fast("--decoding", *options)
