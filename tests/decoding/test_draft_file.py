"""Drafts from a file, in fairseq's commands."""

import gc
import re

import pytest
import torch

from fairseq_fastdec.decoding.draft_file import DraftFile
from fairseq_fastdec.decoding.options import DecodingOptions
from tests.support import tiny
from tests.support.against_fairseq import our_generator
from tests.support.command_line import generate, hypotheses, interactive
from tests.support.text_files import write
from tests.support.trained_models import TASK, stock_model

LINES = ["a b c d", "j i", "h g f", "e d c b a"]


def accepted(caplog):
    """How many tokens of drafts the last generator has accepted, and how many there were."""
    gc.collect()
    found = re.findall(r"(\d+) of (\d+) tokens of drafts accepted", caplog.text)
    return tuple(map(int, found[-1])) if found else None


def test_lines_are_tokens_with_an_end(tmp_path):
    words = TASK.target_dictionary
    drafts = DraftFile(str(write(tmp_path / "drafts", ["a b", "", "c"])), words).of([2, 1, 0])
    eos = words.eos()
    expected = [[words.index("c"), eos], [], [words.index("a"), words.index("b"), eos]]
    assert [draft.tolist() for draft in drafts] == expected
    assert all(draft.dtype == torch.int64 for draft in drafts)


def test_a_file_that_is_too_short(tmp_path):
    drafts = DraftFile(str(write(tmp_path / "drafts", ["a"])), TASK.target_dictionary)
    with pytest.raises(ValueError, match="has 1 lines, fewer than the input has sentences"):
        drafts.of([0, 1])


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read(tmp_path, content):
    path = tmp_path / "drafts"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=f"--draft-file {path}: cannot be read"):
        DraftFile(str(path), TASK.target_dictionary)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(decoding="beam"), "does not apply to --decoding beam"),
        (dict(decoding="jacobi"), "use --decoding greedy or blockwise or lookahead or auto"),
        (dict(decoding="blockwise", acceptance="topk"), "requires --acceptance exact"),
        (dict(decoding="blockwise", min_block_size=2), "no --min-block-size"),
    ],
)
def test_methods_that_verify_no_drafts(options, message):
    with pytest.raises(ValueError, match=message):
        DecodingOptions(draft_file="drafts", **options).check()


@pytest.mark.parametrize(
    ("decoding", "drafts", "message"),
    [
        ("gs_jacobi", [torch.tensor([5])], "gs_jacobi: does not verify drafts"),
        ("greedy", [], "drafts: 0 for 1 sentences"),
        ("greedy", [torch.tensor([10**6])], "the token 1000000 is not in the dictionary"),
    ],
)
def test_drafts_of_samples_are_checked(decoding, drafts, message):
    generator = our_generator([stock_model()], decoding, {})
    with pytest.raises(ValueError, match=message):
        generator.generate([stock_model()], dict(tiny.random_batch(TASK, [3]), drafts=drafts))


@pytest.mark.parametrize("decoding", ["greedy", "lookahead"])
def test_in_fairseq_generate(corpus, baseline, tmp_path, caplog, decoding):
    """The draft of a sentence is in the line that has its number in the data set."""
    printed = generate(corpus, baseline, "--decoding", decoding)
    number_of = {int(n): text for n, text in re.findall(r"(?m)^H-(\d+)\t[^\t]*\t(.*)$", printed)}
    lines = [number_of[number] for number in range(len(number_of))]
    options = ["--decoding", decoding, "--draft-file", write(tmp_path / "drafts", lines)]
    with caplog.at_level("INFO"):
        again = generate(corpus, baseline, *options)
    assert hypotheses(again) == hypotheses(printed)
    n_right, n_drafted = accepted(caplog)
    # The first token behind each block is the model's answer.
    assert n_right == n_drafted > 0.9 * sum(len(line.split()) + 1 for line in lines)


def assert_right_drafts_are_accepted(data, path, tmp_path, caplog, *options):
    """The drafts are what fairseq-interactive prints without them."""
    outputs = hypotheses(interactive(data, path, LINES, tmp_path, *options))
    drafts = write(tmp_path / "drafts", [outputs[number] for number in range(len(LINES))])
    with caplog.at_level("INFO"):
        drafted = interactive(data, path, LINES, tmp_path, *options, "--draft-file", drafts)
    assert hypotheses(drafted) == outputs
    n_right, n_drafted = accepted(caplog)
    assert n_right == n_drafted > 10


@pytest.mark.parametrize("buffer_size", [1, 3, 100])
def test_in_fairseq_interactive(corpus, baseline, tmp_path, caplog, buffer_size):
    """Whose numbers begin again with each buffer."""
    options = ["--decoding", "greedy", "--buffer-size", buffer_size]
    options += ["--batch-size", min(buffer_size, 2)]
    assert_right_drafts_are_accepted(corpus, baseline, tmp_path, caplog, *options)


def test_plain_text_with_a_bpe(corpus, baseline, tmp_path, caplog):
    codes = write(tmp_path / "codes", ["#version: 0.2", "a b</w>"])
    options = ["--decoding", "greedy", "--bpe", "subword_nmt", "--bpe-codes", codes]
    assert_right_drafts_are_accepted(corpus, baseline, tmp_path, caplog, *options)
