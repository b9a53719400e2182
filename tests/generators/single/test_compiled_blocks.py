"""Blocks on the host: the hypotheses, records and observations of blocks as tensors."""

import pytest
import torch

from fairseq_fastdec.engine.kernels.verification import Verification
from fairseq_fastdec.generators.best_tokens import BestTokens
from fairseq_fastdec.generators.single.compiled_blocks import CompiledBlocks
from tests.support import tiny
from tests.support.against_fairseq import our_generator
from tests.support.blockwise import EOS, in_fp64
from tests.support.compiled import PRECISIONS, compiled
from tests.support.trained_models import TASK, blockwise_model

pytestmark = pytest.mark.usefixtures("without_compiled_search")
SAMPLE = tiny.random_batch(TASK, [1, 4, 8, 9, 12, 0, 7, 3, 10, 11], seed=2)
PREFIX = torch.tensor([[7, 8, 9], [8, 1, 1], [EOS, 1, 1]] + [[5, 5, 1]] * 7)

METHODS = {
    "greedy": dict(),
    "chain": dict(decoding="blockwise"),
    "short chain": dict(decoding="blockwise", decoding_block_size=2),
    "block of one": dict(decoding="blockwise", decoding_block_size=1),
    "minimum block": dict(decoding="blockwise", min_block_size=3),
    "top 2": dict(decoding="blockwise", acceptance="topk", acceptance_topk=2),
    "tree": dict(decoding="blockwise", proposal_tree=7),
    "few types": dict(decoding="blockwise", proposal_types=12),
    "window": dict(decoding="lookahead", lookahead_window=4),
    "window of one": dict(decoding="lookahead", lookahead_window=1),
    "window of copies": dict(decoding="lookahead", draft="copy"),
}
CONDITIONS = {
    "as it is": {},
    "one sentence": {},
    "a prefix": dict(prefix_tokens=PREFIX),
    "a length limit": dict(max_len_b=5),
    "lengths alike": dict(min_len=7, max_len_b=7),
    "unknown words": dict(unk_penalty=-2.0),
    "temperature": dict(temperature=1.7),
}


def found(models, method, condition, sample=SAMPLE, observes=True, **more):
    """Hypotheses, records, and what an observer saw."""
    options = {"max_len_b": 12, **CONDITIONS[condition]}
    prefix = options.pop("prefix_tokens", None)
    options_of_method = dict(METHODS[method], **more)
    name = options_of_method.pop("decoding", "greedy")
    generator = our_generator(models, name, options_of_method, **options)
    seen, records = [], []

    def observe(sentences, *columns):
        # Rows may leave in another order, and lie in another one then.
        order = sentences.argsort()
        seen.append([part if part is None else part[order] for part in (sentences, *columns)])

    generator.observer = observe if observes else None
    count = generator.statistics.count_sentence
    generator.statistics.count_sentence = lambda record: (records.append(record), count(record))
    hypotheses = generator.generate(models, sample, prefix_tokens=prefix)
    return hypotheses, records, seen, generator.statistics


def one_sentence():
    return tiny.random_batch(TASK, [9], seed=5)


@compiled
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("method", METHODS)
def test_blocks_as_tensors_find_the_same(method, condition, monkeypatch):
    models = [blockwise_model()]
    sample = one_sentence() if condition == "one sentence" else SAMPLE
    ours = found(models, method, condition, sample)
    monkeypatch.setattr(CompiledBlocks, "of", lambda *_: None)
    expected = found(models, method, condition, sample)
    assert_alike(ours, expected)


def assert_alike(ours, expected):
    for own, other in zip(ours[0], expected[0]):
        assert own[0]["tokens"].tolist() == other[0]["tokens"].tolist()
        torch.testing.assert_close(
            own[0]["positional_scores"], other[0]["positional_scores"], atol=1e-4, rtol=1e-4
        )
    assert ours[1] == expected[1]
    assert len(ours[2]) == len(expected[2])
    for own, other in zip(ours[2], expected[2]):
        for part, of_other in zip(own, other):
            if part is not None or of_other is not None:
                torch.testing.assert_close(part, of_other, atol=1e-4, rtol=1e-4)
    assert ours[3].accepted == expected[3].accepted
    assert ours[3].decoder_invocations == expected[3].decoder_invocations


def assert_identical(ours, expected):
    """Hypotheses, bit for bit."""
    assert len(ours) == len(expected)
    for own, other in zip(ours, expected):
        assert torch.equal(own[0]["tokens"], other[0]["tokens"])
        assert torch.equal(own[0]["positional_scores"], other[0]["positional_scores"])


@compiled
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("method", METHODS)
def test_an_invocation_is_one_call_where_nobody_looks_on(method, condition, monkeypatch):
    models = [blockwise_model()]
    sample = one_sentence() if condition == "one sentence" else SAMPLE
    in_parts = found(models, method, condition, sample)
    calls = []
    run = Verification.run
    monkeypatch.setattr(Verification, "run", lambda *args: calls.append(run(*args)) or calls[-1])
    at_once = found(models, method, condition, sample, observes=False)
    assert_identical(at_once[0], in_parts[0])
    assert at_once[1] == in_parts[1]
    assert at_once[3].decoder_invocations == in_parts[3].decoder_invocations
    # What another rule accepts is found in Python.
    if method not in ("top 2", "minimum block"):
        # Prefixes are fed before there are blocks.
        assert len(calls) == at_once[3].decoder_invocations - (condition == "a prefix")
        # The first calls say how much scratch memory is wanted, all others do the work.
        assert sum(n is None for n in calls) <= 3 < len(calls)


@compiled
@pytest.mark.parametrize("method", ["chain", "tree", "greedy"])
def test_a_learned_first_head_in_one_call(method):
    models = [blockwise_model(identity_first_head=False, freeze_base=False)]
    in_parts = found(models, method, "as it is")
    at_once = found(models, method, "as it is", observes=False)
    assert_identical(at_once[0], in_parts[0])
    assert at_once[1] == in_parts[1]


@compiled
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("method", ["chain", "tree", "few types", "window"])
def test_every_method_has_greedys_scores_bit_for_bit(method, precision):
    """In any precision: a token is computed alike in all steps."""
    models = [blockwise_model()]
    greedy = found(models, "greedy", "as it is", engine_precision=precision)[0]
    ours = found(models, method, "as it is", engine_precision=precision)[0]
    assert_identical(ours, greedy)


@compiled
@pytest.mark.parametrize("precision", PRECISIONS)
def test_proposals_of_few_types_are_made_by_compiled_code(precision, monkeypatch):
    """A layer of some types has to say, too, that it is packed."""
    by_torch = []
    monkeypatch.setattr(BestTokens, "of_heads", lambda *args: by_torch.append(args))
    found([blockwise_model()], "few types", "one sentence", engine_precision=precision)
    assert not by_torch


@compiled
@pytest.mark.parametrize("method", ["chain", "tree"])
def test_a_learned_first_head(method):
    models = [blockwise_model(identity_first_head=False, freeze_base=False)]
    greedy = found(models, "greedy", "as it is")[0]
    for own, other in zip(found(models, method, "as it is")[0], greedy):
        assert own[0]["tokens"].tolist() == other[0]["tokens"].tolist()


@compiled
@pytest.mark.parametrize("kind, is_compiled", [("one", True), ("two", False), ("fp64", False)])
def test_where_blocks_lie_on_the_host(kind, is_compiled, monkeypatch):
    models = [blockwise_model()] * (2 if kind == "two" else 1)
    if kind == "fp64":
        models = [in_fp64(blockwise_model())]
    chosen = []
    of = CompiledBlocks.of.__func__
    monkeypatch.setattr(
        CompiledBlocks, "of", classmethod(lambda *args: chosen.append(of(*args)) or chosen[-1])
    )
    found(models, "chain", "as it is")
    assert [blocks is not None for blocks in chosen] == [is_compiled]
