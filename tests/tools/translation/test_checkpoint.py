"""Lines become the translations that fairseq-interactive prints."""

import math
import os
import re
from argparse import Namespace

import pytest
import torch
from fairseq import options

from fairseq_fastdec.tools.command_line import to_config
from fairseq_fastdec.tools.translation import checkpoint
from fairseq_fastdec.tools.translation.arguments import parse_args
from fairseq_fastdec.tools.translation.checkpoint import CheckpointTranslator
from fairseq_fastdec.tools.translation.chunks import Chunk
from fairseq_fastdec.tools.translation.output_lines import Outcome, OutputRules, TextHypothesis
from fairseq_fastdec.translating.results import Problem
from tests.support import command_line

LINES = ["a b c", "  c  c c ", "j i h g f e d c b a", "ü a", "a\u00a0b\u2028c", "a b c"]


@pytest.fixture
def translator_of(corpus, baseline):
    """A function that makes a translator of some options."""

    def make(*arguments, path=baseline, data=corpus):
        parser = options.get_generation_parser(default_task="translation")
        given = [data, "--path", path, "--cpu", "-s", "en", "-t", "de", *arguments]
        return CheckpointTranslator(
            to_config(options.parse_args_and_arch(parser, list(map(str, given))))
        )

    return make


def printed_by_interactive(corpus, path, lines, tmp_path, *arguments):
    """Text and scores by line, best first."""
    options = ["--buffer-size", 100, "-s", "en", "-t", "de", *arguments]
    printed = command_line.interactive(corpus, path, lines, tmp_path, *options)
    found = [[] for _ in lines]
    for number, score, text in re.findall(r"(?m)^D-(\d+)\t([^\t]*)\t(.*)$", printed):
        found[int(number)].append((text, pytest.approx(float(score), abs=1e-4)))
    return found


@pytest.mark.parametrize(
    "arguments",
    [
        ["--decoding", "greedy"],
        ["--decoding", "streaming", "--beam", 3, "--nbest", 2, "--batch-size", 2],
        ["--decoding", "fairseq", "--beam", 2, "--nbest", 2, "--max-tokens", 20],
        ["--post-process", "@@ ", "--lenpen", 0.5],
    ],
    ids=["greedy", "streaming", "fairseq", "default"],
)
def test_lines_are_translated_as_by_interactive(
    translator_of, corpus, baseline, tmp_path, arguments
):
    lines = [line for line in LINES if line.splitlines() == [line]]
    expected = printed_by_interactive(corpus, baseline, lines, tmp_path, *arguments)
    results = translator_of(*arguments).translate_lines(lines, seed=1)
    assert [[(h.text, h.score) for h in result.hypotheses] for result in results] == expected


def test_an_empty_line_stays_empty(translator_of):
    empty, line, blank = translator_of("--decoding", "greedy").translate_lines(
        ["", "a b c", " \t"], 1
    )
    assert empty == blank == Outcome(0, [TextHypothesis("", 0.0, 0)])
    assert line.hypotheses[0].text == "c b a"


def test_tokenisers_and_bpe(translator_of, corpus, baseline, tmp_path):
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\na b</w>\n")
    arguments = ["--tokenizer", "moses", "--bpe", "subword_nmt", "--bpe-codes", codes]
    arguments += ["--decoding", "greedy"]
    lines = ["a, b & c!", "ab abc", "a&amp;b"]
    expected = printed_by_interactive(corpus, baseline, lines, tmp_path, *arguments)
    results = translator_of(*arguments).translate_lines(lines, seed=1)
    assert [[(h.text, h.score) for h in result.hypotheses] for result in results] == expected


def test_scores_are_of_base_two_and_tokens_are_counted(translator_of):
    (outcome,) = translator_of("--decoding", "greedy").translate_lines(["a b c"], seed=1)
    assert outcome.n_source_tokens == 3
    (best,) = outcome.hypotheses
    assert (best.text, best.n_tokens) == ("c b a", 3)
    assert -2 / math.log(2) < best.score < 0


def test_the_order_of_work_does_not_show(translator_of):
    translator = translator_of("--decoding", "greedy", "--batch-size", 2)
    together = translator.translate_lines(LINES, seed=1)
    one_by_one = [translator.translate_lines([line], seed=1)[0] for line in LINES]
    assert [r.hypotheses[0].text for r in together] == [r.hypotheses[0].text for r in one_by_one]


def test_lines_that_are_too_long(translator_of):
    translator = translator_of("--max-source-positions", 4, "--decoding", "greedy")
    fits, problem, again = translator.translate_lines(["a b c", "a b c d", "a"], seed=1)
    assert isinstance(fits, Outcome) and isinstance(again, Outcome)
    assert problem == Problem(
        "too long", "5 tokens with the end mark, but --max-source-positions, or the model, allows 4"
    )
    translator = translator_of("--max-tokens", 3, "--decoding", "greedy")
    _, problem = translator.translate_lines(["a b", "a b c"], seed=1)
    assert "4 tokens with the end mark, but --max-tokens allows 3" in problem


def test_what_a_tokeniser_cannot_take(translator_of, monkeypatch):
    translator = translator_of("--decoding", "greedy")
    monkeypatch.setattr(translator, "_codec", Broken(translator._codec))
    fine, problem = translator.translate_lines(["b", "a b"], seed=1)
    assert isinstance(fine, Outcome)
    assert problem == Problem("not tokenised", "no a")
    with pytest.raises(ValueError, match="--tokenizer, --bpe: the line 'a' .* no a"):
        translator.prepare()


class Broken:
    """A codec that takes no line with an ``a``."""

    def __init__(self, codec):
        self.decode, self._encode = codec.decode, codec.encode

    def encode(self, text):
        return Problem("not tokenised", "no a") if "a" in text else self._encode(text)


def test_a_score_that_is_not_finite_loses_its_line_only(translator_of):
    translator = translator_of("--decoding", "greedy", "--batch-size", 3, "--keep-model")
    lines = ["a b c", "d e", "c a"]
    expected = translator.translate_lines(lines, seed=1)
    word = translator.task.source_dictionary.index("e")
    embedding = translator._models[0].encoder.embed_tokens
    with torch.no_grad():
        embedding.weight = torch.nn.Parameter(embedding.weight.detach().clone())
        embedding.weight[word] = float("nan")
    first, lost, last = translator.translate_lines(lines, seed=1)
    assert lost.kind == "not finite" and "--engine-precision fp32" in lost
    assert [first, last] == [expected[0], expected[2]]


@pytest.mark.parametrize("decoding", ["fairseq", "streaming"])
def test_sampling_depends_on_the_seed_alone(translator_of, decoding):
    options = ["--decoding", decoding, "--sampling", "--beam", 1, "--temperature", 3]
    translator = translator_of(*options)
    first, again, other = (translator.translate_lines(LINES * 3, seed) for seed in (1, 1, 2))
    assert first == again and first != other
    assert translator_of(*options).translate_lines(LINES * 3, 1) == first


def test_ensembles_and_progress(translator_of, baseline, blockwise):
    translator = translator_of("--decoding", "greedy", path=f"{baseline}:{blockwise}")
    told = []
    assert len(translator.translate_lines(LINES, 1, told.append)) == sum(told) == len(LINES)


@pytest.mark.parametrize(
    "positions, on_gpu, n_tokens",
    [(1024, False, 1024), (4096, False, 4096), (None, False, 1024), (1024, True, 12000)],
)
def test_how_much_is_decoded_at_once(monkeypatch, positions, on_gpu, n_tokens):
    monkeypatch.setattr(checkpoint, "uses_cuda", lambda _: on_gpu)
    dataset = Namespace(max_tokens=None, batch_size=None)
    cfg = Namespace(task=Namespace(max_source_positions=positions), dataset=dataset)
    checkpoint.limit_batches(cfg)
    assert cfg.dataset.max_tokens == n_tokens
    cfg.dataset = Namespace(max_tokens=None, batch_size=7)
    checkpoint.limit_batches(cfg)
    assert cfg.dataset.max_tokens is None


def test_a_model_for_another_machine_names_files_by_relative_paths(
    corpus, baseline, tmp_path, monkeypatch
):
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\na b</w>\n")
    given = [corpus, "--path", f"{baseline}:{baseline}", "--input", "x", "--output", "y"]
    given += ["--bpe", "subword_nmt", "--bpe-codes", codes]
    model = checkpoint.CheckpointModel(to_config(parse_args([str(own) for own in given])))
    model.cfg.common.user_dir = os.path.relpath(tmp_path)
    portable, files = model.portable()
    name = os.path.basename(baseline)
    assert files == {
        f"model0/{name}": str(baseline),
        f"model1/{name}": str(baseline),
        "data/dict.de.txt": str(corpus / "dict.de.txt"),
        "data/dict.en.txt": str(corpus / "dict.en.txt"),
        "bpe.bpe_codes/codes": str(codes),
    }
    cfg = portable.cfg
    assert cfg.common_eval.path == f"model0/{name}:model1/{name}"
    assert (cfg.task.data, cfg.bpe.bpe_codes) == ("data", "bpe.bpe_codes/codes")
    assert cfg.common.user_dir == str(tmp_path)
    assert model.cfg.common_eval.path == f"{baseline}:{baseline}"
    assert cfg.generation == model.cfg.generation


def test_drafts_are_those_of_the_lines_numbers(translator_of, tmp_path):
    """And lines that are not UTF-8 have numbers, too."""
    alone = translator_of("--decoding", "greedy")
    expected = alone.translate_lines(LINES, seed=1)
    texts = [result.hypotheses[0].text for result in expected]
    drafts = tmp_path / "drafts"
    drafts.write_text("\n".join([*[""] * 20, texts[0], "j", *texts[1:]]), encoding="utf-8")
    drafted = translator_of("--decoding", "greedy", "--draft-file", drafts)
    first, *others = (line.encode("utf-8") for line in LINES)
    source = b"\n".join([first, b"\xff", *others, b""])
    rules = OutputRules(on_error="empty")
    drafted._rules = alone._rules = rules
    chunk = Chunk(3, 20, source)
    assert drafted.translate(chunk, lambda n: None) == alone.translate(chunk, lambda n: None)
    statistics = drafted._generator.statistics
    assert statistics.drafted_right == statistics.drafted > 10
