"""Tokens that are not in the dictionaries are refused where they enter, by every method.

So are sources without a token: an error, and never a translation of nothing.
"""

import argparse
import math

import pytest
import torch

from fairseq_fastdec.decoding import METHODS, build_generator
from fairseq_fastdec.decoding.options import DecodingOptions
from fairseq_fastdec.decoding.request import Sources, check_request
from tests.support import command_line, doubles, tiny
from tests.support.against_fairseq import fairseq_hypotheses
from tests.support.trained_models import stock_model
from tests.support.words import write_words

# Dictionaries of different sizes, of which each token of the larger one is no token of the other.
TASK = tiny.task(20, target_words=12)
DOUBLE_TASK = tiny.double_token_task("l2r", source_words=20, target_words=12)
REMEDY = "fairseq-preprocess --srcdict, --tgtdict"

WAYS = ["compiled", "torch", "fairseq's incremental decoding"]


def generator_of(decoding, way="compiled"):
    """A generator of a method, and its task."""
    task = DOUBLE_TASK if decoding == "double_token" else TASK
    arch = {
        "double_token": "double_token_transformer",
        "blockwise": "blockwise_transformer",
    }.get(decoding, "transformer")
    model = doubles.table_model(task) if way == WAYS[2] else tiny.stir(tiny.build_model(task, arch))
    options = DecodingOptions(decoding=decoding)
    target, source = task.target_dictionary, task.source_dictionary
    args = argparse.Namespace(beam=5, max_len_b=8)
    return build_generator([model], target, args, options, source_dictionary=source), task


@pytest.fixture(params=WAYS)
def way(request):
    if request.param == "torch":
        request.getfixturevalue("nothing_compiled")
    return request.param


@pytest.fixture(params=sorted(METHODS))
def generator_and_task(request, way):
    if way == WAYS[2] and request.param in ("blockwise", "double_token"):
        pytest.skip("fairseq knows no such models: run it with the engine")
    return generator_of(request.param, way)


def test_sources(generator_and_task):
    generator, task = generator_and_task
    for wrong in (-1, len(task.source_dictionary), 10**9):
        sample = tiny.random_batch(task, [3, 5])
        sample["net_input"]["src_tokens"][1, 2] = wrong
        with pytest.raises(ValueError, match=f"src_tokens: the token {wrong} .*{REMEDY}"):
            generator.generate([], sample)


def test_prefixes(generator_and_task):
    """As --prefix-size 2 takes them from data of another dictionary."""
    generator, task = generator_and_task
    sample = tiny.random_batch(task, [3, 5])
    for wrong in (-1, len(task.target_dictionary), 10**9):
        prefix = torch.tensor([[5, 6], [5, wrong]])
        with pytest.raises(ValueError, match=f"--prefix-size.*: the token {wrong} .*{REMEDY}"):
            generator.generate([], sample, prefix_tokens=prefix)
    for malformed in (torch.tensor([5, 6]), torch.tensor([[5]]), torch.tensor([[5.0], [6.0]])):
        with pytest.raises(ValueError, match="prefix_tokens: .* for 2 sentences"):
            generator.generate([], sample, prefix_tokens=malformed)
    last = len(task.target_dictionary) - 1
    hypotheses = generator.generate([], sample, prefix_tokens=torch.full((2, 1), last))
    assert all(own[0]["tokens"][0] == last for own in hypotheses)


def test_bos(generator_and_task):
    generator, task = generator_and_task
    for wrong in (-1, len(task.target_dictionary)):
        with pytest.raises(ValueError, match=f"bos_token: the token {wrong} is not in"):
            generator.generate([], tiny.random_batch(task, [3]), bos_token=wrong)


def test_sources_of_no_integers_are_the_models_own_matter():
    """Of speech, for example."""
    frames = Sources(torch.full((2, 3, 4), 1e9), torch.tensor([3, 2]), {})
    for dictionary in (TASK.source_dictionary, None):
        check_request(frames, [0, 1], None, 2, dictionary, TASK.target_dictionary)


EOS, PAD = TASK.source_dictionary.eos(), TASK.source_dictionary.pad()
WITHOUT_A_TOKEN = {
    "alone": ([[PAD, PAD]], "7"),
    "padding": ([[5, 6, EOS], [PAD, PAD, PAD], [PAD, 6, EOS], [PAD, PAD, PAD]], "8, 10"),
    "no column": ([[], []], "7, 8"),
}


def sample_of(rows):
    tokens = torch.tensor(rows, dtype=torch.int64)
    lengths = tokens.ne(PAD).sum(dim=1)
    ids = torch.arange(7, 7 + len(rows))
    return {"id": ids, "net_input": {"src_tokens": tokens, "src_lengths": lengths}}


@pytest.mark.parametrize("rows, numbers", WITHOUT_A_TOKEN.values(), ids=WITHOUT_A_TOKEN)
@pytest.mark.parametrize("decoding", sorted(METHODS))
def test_sources_without_a_token(decoding, rows, numbers):
    generator, _ = generator_of(decoding)
    with pytest.raises(ValueError, match=f"^src_tokens: .* in sentences {numbers}; leave them out"):
        generator.generate([], sample_of(rows))
    assert generator.statistics.sentences == 0


@pytest.mark.parametrize("decoding", sorted(METHODS))
def test_an_empty_line_is_a_source(decoding):
    """fairseq ends every line with EOS."""
    generator, _ = generator_of(decoding)
    for own in generator.generate([], sample_of([[PAD, EOS], [5, EOS]])):
        assert math.isfinite(own[0]["score"])


@pytest.mark.parametrize(
    "rows", [rows for rows, _ in WITHOUT_A_TOKEN.values()], ids=WITHOUT_A_TOKEN
)
def test_fairseqs_own_generator_gives_nothing_without_a_token_either(rows):
    with pytest.raises((AssertionError, RuntimeError)):
        fairseq_hypotheses([stock_model(trained=False)], sample_of(rows))


@pytest.mark.parametrize("side", ["source", "target"])
def test_models_of_fewer_types_than_the_dictionaries(side):
    own = dict(source=TASK.source_dictionary, target=TASK.target_dictionary)
    own[side] = tiny.dictionary(30)
    options, args = DecodingOptions(decoding="beam"), argparse.Namespace(beam=5)
    with pytest.raises(ValueError, match=f"--path: the model has .* {side} types, and .* 34"):
        build_generator(
            [tiny.build_model(TASK)],
            own["target"],
            args,
            options,
            source_dictionary=own["source"],
        )


def test_the_end_of_double_token_decoding_is_in_the_dictionary():
    generator, task = generator_of("double_token")
    end = task.target_dictionary.index("<eod>")
    generator.generate([], tiny.random_batch(task, [3]), prefix_tokens=torch.tensor([[5, end]]))


def test_on_the_command_line(corpus, baseline, tmp_path):
    """Data that were binarised with another, larger dictionary, decoded with the model's own."""
    words = [[f"word{i}" for i in range(40)]]
    for language in ("en", "de"):
        write_words(tmp_path / f"test.{language}", words)
        write_words(tmp_path / f"train.{language}", words)
    command_line.preprocess(
        "-s", "en", "-t", "de", "--joined-dictionary", "--destdir", tmp_path / "bin",
        "--trainpref", tmp_path / "train", "--testpref", tmp_path / "test",
    )  # fmt: skip
    for language in ("en", "de"):
        (tmp_path / "bin" / f"dict.{language}.txt").write_bytes(
            (corpus / f"dict.{language}.txt").read_bytes()
        )
    with pytest.raises(ValueError, match=f"the token .* is not in the dictionary .*{REMEDY}"):
        command_line.generate(
            tmp_path / "bin", baseline, "--decoding", "beam", "--beam", 2, "--prefix-size", 2
        )
