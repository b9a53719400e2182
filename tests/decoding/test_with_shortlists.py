"""--shortlist: every method decodes with the types it allows, and with no others.

These tests are about several methods, so they stand beside the folders of the methods.
"""

import argparse

import pytest
import torch

from fairseq_fastdec.decoding import build_generator
from fairseq_fastdec.decoding.methods import beam as fixed_beam
from fairseq_fastdec.decoding.methods.beams import BEAMS
from fairseq_fastdec.decoding.methods.guesses import GUESSING
from fairseq_fastdec.decoding.options import DecodingOptions
from fairseq_fastdec.translating.registry import METHODS
from fairseq_fastdec.translating.shortlist import Shortlist
from tests.support import tiny
from tests.support.compiled import compiled
from tests.support.lexical_tables import next_words, write_table
from tests.support.trained_models import TASK, blockwise_model, stock_model

LENGTHS = [9, 3, 1, 6, 8, 0, 5, 7]
SINGLE = [method for method in METHODS if method != "double_token"]


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """A table in which every word, and the end of a sentence, has all translations."""
    words = [f"w{number}" for number in range(20)]
    lines = [(target, source, 0.05) for source in [*words, "</s>"] for target in words]
    return write_table(tmp_path_factory.mktemp("complete") / "lex.s2t", lines)


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    return next_words(tmp_path_factory.mktemp("narrow") / "lex.s2t", 20)


def decode(
    model, decoding, shortlist=None, sample=None, prefix=None, task=TASK, beam=None, **options
):
    if shortlist is not None:
        options = {"shortlist": shortlist, "shortlist_first": 0, **options}
    method = DecodingOptions(decoding=decoding, **options)
    method.check()
    several = decoding in (*BEAMS, "double_token")
    args = argparse.Namespace(beam=beam or (3 if several else 1), max_len_b=15, nbest=1)
    generator = build_generator(
        [model], task.target_dictionary, args, method, None, None, task.source_dictionary
    )
    sample = sample or tiny.random_batch(task, LENGTHS)
    return generator.generate([model], sample, prefix_tokens=prefix)


def tokens(hypotheses):
    return [[hypothesis["tokens"].tolist() for hypothesis in own] for own in hypotheses]


def model_for(decoding, **kind):
    return blockwise_model() if decoding == "blockwise" else stock_model(**kind)


@pytest.mark.parametrize("precision", ["model", "int8"])
@pytest.mark.parametrize("decoding", SINGLE)
def test_a_complete_shortlist_changes_nothing(decoding, precision, complete):
    model = model_for(decoding)
    full = decode(model, decoding, engine_precision=precision)
    short = decode(model, decoding, complete, engine_precision=precision, shortlist_best=20)
    assert tokens(short) == tokens(full)
    for own, expected in zip(short, full):
        assert own[0]["score"].item() == pytest.approx(expected[0]["score"].item(), abs=1e-4)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("decoding", SINGLE)
def test_no_other_token_is_ever_chosen(decoding, seed, narrow):
    """Of models that would like to say anything, in small batches with small shortlists."""
    model = (
        tiny.stir(tiny.build_model(TASK, "blockwise_transformer", block_size=3), seed)
        if decoding == "blockwise"
        else stock_model(seed=seed, trained=False)
    )
    sample = tiny.random_batch(TASK, [2, 3], seed=seed)
    source = set(sample["net_input"]["src_tokens"].flatten().tolist())
    allowed = source | {4 + (word - 3) % 20 for word in source if word >= 4} | {0, 2, 3}
    used = {t for own in tokens(decode(model, decoding, narrow, sample)) for h in own for t in h}
    assert used <= allowed
    free = {t for own in tokens(decode(model, decoding, None, sample)) for h in own for t in h}
    assert not free <= allowed or decoding == "blockwise"


@pytest.mark.parametrize("way", ["compiled", "torch"])
@pytest.mark.parametrize("decoding", METHODS)
def test_a_sentence_does_not_depend_on_its_batch(decoding, way, narrow, request):
    if way == "torch":
        request.getfixturevalue("nothing_compiled")
    task, model = TASK, blockwise_model() if decoding == "blockwise" else stock_model(trained=False)
    if decoding == "double_token":
        task = tiny.double_token_task()
        model = tiny.stir(tiny.build_model(task, "double_token_transformer"))
    sample = tiny.random_batch(task, LENGTHS)
    whole = tokens(decode(model, decoding, narrow, sample, task=task))
    for row, expected in enumerate(whole):
        net_input = {name: own[row : row + 1] for name, own in sample["net_input"].items()}
        alone = {**sample, "id": sample["id"][row : row + 1], "net_input": net_input}
        assert tokens(decode(model, decoding, narrow, alone, task=task)) == [expected]


@pytest.mark.parametrize("way", ["compiled", "torch"])
@pytest.mark.parametrize("decoding", SINGLE)
def test_types_are_looked_up_once_for_each_batch(decoding, way, narrow, monkeypatch, request):
    if way == "torch":
        request.getfixturevalue("nothing_compiled")
    calls = []
    types_of = Shortlist.types_of
    monkeypatch.setattr(Shortlist, "types_of", lambda *a: calls.append(1) or types_of(*a))
    decode(model_for(decoding), decoding, narrow)
    assert calls == [1]


@compiled
@pytest.mark.parametrize("decoding", BEAMS)
def test_compiled_beams_build_none_in_torch(decoding, monkeypatch):
    monkeypatch.setattr(fixed_beam, "Beam", None)
    assert len(decode(stock_model(), decoding)) == len(LENGTHS)


def test_double_tokens(narrow):
    task = tiny.double_token_task()
    model = tiny.stir(tiny.build_model(task, "double_token_transformer"))
    sample = tiny.random_batch(task, [2, 3])
    source = set(sample["net_input"]["src_tokens"].flatten().tolist())
    allowed = source | {4 + (word - 3) % 20 for word in source if word >= 4} | {0, 2, 3}
    short = decode(model, "double_token", narrow, sample, task=task)
    assert {t for own in tokens(short) for h in own for t in h} <= allowed
    assert all(own[0]["score"].isfinite() for own in short), "the end is possible"


@pytest.mark.parametrize("batch_size", [1, 8])
@pytest.mark.parametrize("decoding", ["blockwise", *GUESSING])
def test_lossless_methods_give_the_tokens_of_greedy_decoding(decoding, batch_size, narrow):
    model = model_for(decoding)
    for first in range(0, len(LENGTHS), batch_size):
        sample = tiny.random_batch(TASK, LENGTHS[first : first + batch_size], seed=first)
        greedy = decode(model, "greedy", narrow, sample)
        assert tokens(decode(model, decoding, narrow, sample)) == tokens(greedy)


@pytest.mark.parametrize("decoding", ["greedy", "blockwise", "jacobi", *BEAMS])
def test_forced_tokens_outside_of_the_shortlist(decoding, narrow):
    sample = tiny.random_batch(TASK, [1, 2], seed=3)
    source = set(sample["net_input"]["src_tokens"].flatten().tolist())
    outside = next(w for w in range(4, 24) if not {w, 4 + (w - 5) % 20} & source)
    prefix = torch.tensor([[outside], [1]])
    hypotheses = decode(model_for(decoding), decoding, narrow, sample, prefix)
    assert hypotheses[0][0]["tokens"][0] == outside
    assert hypotheses[0][0]["positional_scores"].isfinite().all()


def test_more_beams_than_types(narrow):
    sample = tiny.random_batch(TASK, [1], seed=3)
    for decoding in BEAMS:
        (own,) = decode(stock_model(trained=False), decoding, narrow, sample, beam=12)
        assert own and own[0]["score"].isfinite()


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(decoding="fairseq", shortlist="f"), "--shortlist f: .*use --decoding greedy"),
        (dict(shortlist_first=3), "--shortlist-first 3: has no effect without --shortlist"),
        (dict(shortlist_best=3), "--shortlist-best 3: has no effect without --shortlist"),
        (dict(shortlist="f", shortlist_first=-1), "--shortlist-first -1: must be at least 0"),
        (dict(shortlist="f", shortlist_best=0), "--shortlist-best 0: must be at least 1"),
    ],
)
def test_options_that_are_wrong_or_of_no_use(options, message):
    with pytest.raises(ValueError, match=message):
        DecodingOptions(**{"decoding": "greedy", **options}).check()


def test_no_file(tmp_path):
    with pytest.raises(ValueError, match="--shortlist .*missing: cannot be read"):
        decode(stock_model(trained=False), "greedy", str(tmp_path / "missing"))


@pytest.mark.parametrize("rank", [None, 16])
@pytest.mark.parametrize("batch_size", [1, 8])
def test_heads_that_see_the_tokens_before_theirs(batch_size, rank, narrow):
    """Their proposals are of the shortlist, and what stays is greedy's."""
    model = blockwise_model(block_heads="sequential", block_output_rank=rank)
    for first in range(0, len(LENGTHS), batch_size):
        sample = tiny.random_batch(TASK, LENGTHS[first : first + batch_size], seed=first)
        greedy = decode(model, "greedy", narrow, sample)
        ours = decode(model, "blockwise", narrow, sample)
        assert tokens(ours) == tokens(greedy)
