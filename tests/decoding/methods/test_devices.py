"""No tensor of a method to read meets a tensor on another device.

There are two kinds of GPU here: one that is pretended, and the machine's own if it has one.
"""

import copy

import pytest
from fairseq import utils

from fairseq_fastdec.translating.registry import METHODS
from tests.support import tiny
from tests.support.lexical_tables import write_table
from tests.support.placement import NEEDS_GPU, model_for, task_for
from tests.support.pretended_gpu import PretendedTensor, on_gpu, pretended_gpu
from tests.support.to_read import BEAMS, LENGTHS, assert_same_lists, method_to_read
from tests.support.trained_models import blockwise_model

CASES = [
    *((name, {}) for name in METHODS if name != "auto"),
    ("blockwise", dict(acceptance="topk", min_block_size=2)),
    ("jacobi", dict(guess="copy", oracle_length=True)),
    ("gs_jacobi", dict(guess="previous")),
    ("lookahead", dict(guess="source")),
    ("variable_beam", dict(finalize="fairseq")),
    ("streaming", dict(stream_policy="fifo", max_beam_rows=6)),
]
EVERY_CASE = pytest.mark.parametrize("decoding, method", CASES, ids=str)


def decode(decoding, method, model, sample, **options):
    task = task_for(decoding)
    beam = 3 if decoding in (*BEAMS, "double_token") else 1
    given = dict(beam=beam, max_len_b=10, **options)
    return method_to_read([model], decoding, method, task, **given).generate([model], sample)


def there(hypotheses):
    """The pretended tensors of hypotheses as those of the CPU."""
    for own in hypotheses:
        for one in own:
            for name in ("tokens", "score", "positional_scores"):
                one[name] = one[name].held
    return hypotheses


def assert_as_on_a_cpu(decoding, method, model, **options):
    sample = tiny.random_batch(task_for(decoding), LENGTHS)
    expected = decode(decoding, method, model, sample, **options)
    moved = on_gpu(copy.deepcopy(model))
    with pretended_gpu():
        pretended = utils.apply_to_sample(PretendedTensor, sample)
        found = decode(decoding, method, moved, pretended, **options)
    assert_same_lists(there(found), expected)


@EVERY_CASE
def test_a_pretended_gpu(decoding, method):
    rules = {} if decoding == "double_token" else dict(no_repeat_ngram_size=3)
    assert_as_on_a_cpu(decoding, method, model_for(decoding), min_len=2, **rules)


def test_sequential_heads_on_a_pretended_gpu():
    model = blockwise_model(block_heads="sequential")
    assert_as_on_a_cpu("blockwise", {}, model)


@pytest.mark.parametrize("decoding", ["greedy", "streaming"])
def test_a_shortlist_on_a_pretended_gpu(decoding, tmp_path):
    lines = [(f"w{(number + 1) % 20}", f"w{number}", 1.0) for number in range(20)]
    path = write_table(tmp_path / "lex.s2t", lines)
    assert_as_on_a_cpu(decoding, dict(shortlist=path, shortlist_first=0), model_for(decoding))


@NEEDS_GPU
@EVERY_CASE
def test_the_machines_gpu(decoding, method):
    sample, model = tiny.random_batch(task_for(decoding), LENGTHS), model_for(decoding)
    expected = decode(decoding, method, model, sample)
    found = decode(decoding, method, model.cuda(), utils.move_to_cuda(sample))
    for own in found:
        for one in own:
            for name in ("tokens", "score", "positional_scores"):
                assert one[name].is_cuda
                one[name] = one[name].cpu()
    assert_same_lists(found, expected)
