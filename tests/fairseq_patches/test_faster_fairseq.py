"""Faster functions have the results of fairseq's own."""

import argparse

import pytest
import torch
from fairseq.data import Dictionary, TruncatedDictionary
from fairseq.dataclass.configs import FairseqConfig
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from fairseq_fastdec.fairseq_patches import faster_fairseq
from tests.support import tiny

WORDS = tiny.dictionary(12)
tokens_strategy = st.lists(st.integers(0, len(WORDS) + 2), max_size=9)
text_strategy = st.lists(
    st.sampled_from(["w0", "w11", "<unk>", "</s>", "new", "a@@", "\u00a0", " ", "\t"]), max_size=8
).map(" ".join)


def stock(name):
    return getattr(Dictionary, name).__wrapped__


@given(
    tokens=tokens_strategy,
    post_process=st.sampled_from([None, "@@ ", "subword_nmt", "sentencepiece", "letter"]),
    escape=st.booleans(),
    ignored=st.sets(st.integers(0, 9), max_size=3) | st.none(),
    unk=st.sampled_from([None, "", "?"]),
    eos=st.booleans(),
    separator=st.sampled_from([" ", ""]),
    dtype=st.sampled_from([torch.int32, torch.int64]),
)
def test_strings(tokens, post_process, escape, ignored, unk, eos, separator, dtype):
    arguments = (post_process, escape, ignored, unk, eos, separator)
    tensor = torch.tensor(tokens, dtype=dtype)
    assert WORDS.string(tensor, *arguments) == stock("string")(WORDS, tensor, *arguments)


def test_strings_of_other_things():
    batch = torch.tensor([[5, 6, 2], [7, 3, 1]])
    for given_tokens in (batch, [5, 6, 3, 2], torch.tensor(5)[None]):
        assert WORDS.string(given_tokens) == stock("string")(WORDS, given_tokens)
    few = TruncatedDictionary(WORDS, 7)
    assert few.string(torch.tensor([5, 6])) == "w1 w2"

    class Loud(Dictionary):
        def __getitem__(self, index):
            return super().__getitem__(index).upper()

    loud = Loud()
    loud.add_symbol("word")
    assert loud.string(torch.tensor([4, 4, 9])) == "WORD WORD <UNK>"


@given(
    text=text_strategy, adds=st.booleans(), append=st.booleans(), reverse=st.booleans(),
    consumes=st.booleans(),
)  # fmt: skip
def test_lines(text, adds, append, reverse, consumes):
    results = []
    for encode in (Dictionary.encode_line, stock("encode_line")):
        words, seen = tiny.dictionary(12), []
        options = dict(add_if_not_exist=adds, append_eos=append, reverse_order=reverse)
        if consumes:
            options["consumer"] = lambda word, number: seen.append((word, number))
        ids = encode(words, text, **options)
        results.append((ids.dtype, ids.tolist(), seen, words.symbols, words.count))
    assert results[0] == results[1]


def test_loops_see_the_configuration_that_they_would_read():
    cfg = OmegaConf.structured(FairseqConfig())
    cfg.generation.beam, cfg.common_eval.post_process = 7, "@@ "
    seen = []

    def loop(cfg, *args):
        seen.append((str(cfg), cfg.generation.beam, cfg.common_eval.post_process, args))
        cfg.generation.beam = 1
        cfg.dataset.max_tokens = 12000
        seen.append((cfg.generation.beam, cfg.generation._get_parent().dataset.max_tokens))
        return "scorer"

    assert faster_fairseq._with_plain_groups(loop, cfg, "out") == "scorer"
    assert seen == [(seen[0][0], 7, "@@ ", ("out",)), (1, 12000)]
    assert "'beam': 7" in seen[0][0]
    assert faster_fairseq._with_plain_groups(lambda cfg: cfg, argparse.Namespace(a=1)).a == 1


@pytest.mark.parametrize("name", ["generate", "interactive"])
def test_commands_that_are_imported_run_them(name):
    from fairseq_cli import generate, interactive

    faster_fairseq.install()
    loop = {"generate": generate._main, "interactive": interactive.main}[name]
    assert hasattr(loop, "__wrapped__") and not hasattr(loop.__wrapped__, "__wrapped__")
