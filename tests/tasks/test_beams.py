"""Beam searches through fairseq's own commands."""

import gc
import json
import re

import pytest

from tests.support.command_line import generate, hypotheses, interactive, scores, train

BATCHES = [("--batch-size", 1), ("--batch-size", 7), ("--max-tokens", 60)]


def all_hypotheses(printed):
    """The H- lines of an n-best list: sentence number to tokens, best first."""
    found = {}
    for number, text in re.findall(r"(?m)^H-(\d+)\t[^\t]*\t(.*)$", printed):
        found.setdefault(int(number), []).append(text)
    return found


@pytest.mark.parametrize("batch", BATCHES)
def test_beam_is_fairseqs(corpus, baseline, batch):
    options = ("--beam", 4, "--nbest", 4, "--max-len-a", 1.2, "--max-len-b", 3, *batch)
    theirs = generate(corpus, baseline, *options)
    ours = generate(corpus, baseline, "--decoding", "beam", *options)
    assert all_hypotheses(ours) == all_hypotheses(theirs)
    assert sorted(all_hypotheses(ours)) == list(range(29))
    own, expected = scores(ours), scores(theirs)
    assert all(abs(own[index] - expected[index]) < 1e-4 for index in expected)


@pytest.fixture(scope="module")
def variable(corpus, baseline):
    return generate(
        corpus, baseline, "--decoding", "variable_beam", "--beam", 4, "--nbest", 2,
        "--max-len-a", 1.2, "--max-len-b", 3,
    )  # fmt: skip


@pytest.mark.parametrize(
    "stream",
    [
        ("--batch-size", 1),
        ("--batch-size", 7, "--refill-threshold", 0.5),
        ("--batch-size", 7, "--stream-policy", "fifo", "--max-tokens", 50),
        ("--max-tokens", 60, "--stream-buffer", 10),
        ("--max-beam-rows", 12, "--stream-buffer", 28),
        ("--stream-buffer", 1),
    ],
)
def test_streaming_is_variable_beam_and_loses_nothing(corpus, baseline, variable, stream):
    """29 sentences: the buffer ends anywhere."""
    printed = generate(
        corpus, baseline, "--decoding", "streaming", "--beam", 4, "--nbest", 2,
        "--max-len-a", 1.2, "--max-len-b", 3, *stream,
    )  # fmt: skip
    assert all_hypotheses(printed) == all_hypotheses(variable)
    assert sorted(all_hypotheses(printed)) == list(range(29))


def test_the_capacity_is_what_the_user_said(corpus, baseline, caplog):
    def summary(*options):
        gc.collect()  # generators of earlier commands have had their say
        caplog.clear()
        with caplog.at_level("INFO"):
            generate(corpus, baseline, "--decoding", "streaming", "--beam", 2, *options)
            gc.collect()  # fairseq's frames, kept by exceptions in cycles, hold the generator
        return next(r.message for r in caplog.records if r.message.startswith("streaming decoding"))

    assert re.search(r"\b28 refills", summary("--batch-size", 1))
    assert re.search(r"\b0 refills", summary("--batch-size", 29))
    assert re.search(r"29 encoder invocations.*\b0 refills", summary("--stream-buffer", 1))
    assert re.search(r"\b[1-9]\d* refills", summary("--max-tokens", 60))


def test_samples_depend_on_the_seed_and_not_on_the_batch(corpus, baseline):
    def drawn(*options):
        given = ("--sampling", "--beam", 3, "--nbest", 3, "--temperature", 3, "--max-len-b", 9)
        return all_hypotheses(generate(corpus, baseline, *given, *options))

    first = drawn("--decoding", "variable_beam", "--batch-size", 7)
    assert sorted(first) == list(range(29)) and all(len(own) == 3 for own in first.values())
    assert drawn("--decoding", "variable_beam", "--max-tokens", 40) == first
    assert drawn("--decoding", "streaming", "--batch-size", 4) == first
    assert drawn("--decoding", "beam", "--batch-size", 7) == first
    assert drawn("--decoding", "beam", "--batch-size", 7, "--seed", 5) != first
    limited = drawn("--decoding", "beam", "--sampling-topp", 0.2)
    assert sum(len(set(own)) for own in limited.values()) < sum(
        len(set(own)) for own in first.values()
    )


def test_decoding_stats(corpus, baseline, tmp_path):
    path = tmp_path / "stats.jsonl"
    printed = generate(
        corpus, baseline, "--decoding", "streaming", "--beam", 4, "--batch-size", 5,
        "--decoding-stats", path,
    )  # fmt: skip
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(record["id"] for record in records) == list(range(29))
    for record in records:
        assert record["tokens"] == len(hypotheses(printed)[record["id"]].split()) + 1
        assert record["invocations"] <= record["expansions"] <= 4 * record["invocations"]


def test_ensembles_and_prefixes(corpus, baseline, blockwise):
    paths = f"{baseline}:{blockwise}"
    for options in (("--beam", 3), ("--beam", 1, "--prefix-size", 2)):
        theirs = generate(corpus, paths, *options)
        ours = generate(corpus, paths, "--decoding", "beam", *options)
        assert hypotheses(ours) == hypotheses(theirs)


@pytest.mark.parametrize("decoding", ["beam", "variable_beam", "streaming"])
def test_interactive_with_difficult_lines(corpus, baseline, tmp_path, decoding):
    """Empty lines, unknown symbols, a line of 1,000 words: in order, whatever the buffer."""
    lines = ["a b c", "", "d ü 世 e", " ".join(["f"] * 1000), "   ", "g"]
    options = ("--beam", 3, "--max-len-b", 30, "--decoding", decoding)
    one_by_one = interactive(corpus, baseline, lines, tmp_path, *options)
    buffered = interactive(
        corpus, baseline, lines, tmp_path, *options, "--buffer-size", 4, "--batch-size", 3
    )
    assert hypotheses(buffered) == hypotheses(one_by_one)
    assert list(hypotheses(buffered)) == list(range(len(lines)))
    if decoding == "beam":
        theirs = interactive(corpus, baseline, lines, tmp_path, "--beam", 3, "--max-len-b", 30)
        assert hypotheses(buffered) == hypotheses(theirs)


def test_training_keeps_its_batches(corpus, tmp_path, caplog):
    """--stream-buffer is no batch size for training and validation."""

    def losses(decoding):
        caplog.clear()
        with caplog.at_level("INFO"):
            train(
                corpus, tmp_path / decoding, "--task", "translation", "--arch",
                "transformer", "--eval-bleu", "--eval-bleu-args", '{"beam": 2, "max_len_b": 9}',
                "--decoding", decoding, updates=4,
            )  # fmt: skip
        text = caplog.text
        return re.findall(r"epoch 001 \|.*? loss ([\d.]+)", text), text

    ours, log = losses("streaming")
    assert ours and ours == losses("fairseq")[0]
    assert "tokens_per_invocation" in log
