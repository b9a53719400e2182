"""What is decoded on a device is what is decoded without it."""

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

from fairseq_fastdec.translating.registry import METHODS
from tests.support.lexical_tables import write_table
from tests.support.placement import (
    CPU,
    NEEDS_GPU,
    assert_same,
    batch_for,
    decode,
    generator_for,
    model_for,
    tokens_of,
)
from tests.support.trained_models import TASK

MEMBERS = ("greedy", "blockwise", "lookahead", "beam", "streaming", "double_token")


@pytest.mark.parametrize("decoding", METHODS)
def test_the_hypotheses_of_a_cpu(decoding, device):
    assert_same(decode(decoding, device), decode(decoding, CPU), atol=1e-4)


AGAINST_FAIRSEQ = pytest.mark.parametrize(
    "decoding, beam", [("greedy", 1), ("blockwise", 1), ("beam", 3)]
)
HALF = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])


def ours_and_fairseqs(decoding, beam, device, dtype=torch.float32):
    model = model_for(decoding).to(device, dtype)
    sample = batch_for(decoding, device)
    ours = generator_for(model, decoding).generate([model], sample)
    fairseq = SequenceGenerator([model], TASK.target_dictionary, beam_size=beam, max_len_b=15)
    return ours, fairseq.generate([model], sample)


@AGAINST_FAIRSEQ
def test_the_hypotheses_of_fairseq_on_the_same_device(decoding, beam, device):
    ours, theirs = ours_and_fairseqs(decoding, beam, device)
    assert tokens_of(ours) == tokens_of(theirs)
    for own, reference in zip(ours, theirs):
        assert own[0]["score"].item() == pytest.approx(reference[0]["score"].item(), abs=1e-4)


@HALF
@AGAINST_FAIRSEQ
def test_fairseqs_hypotheses_in_half_precision(decoding, beam, dtype, device):
    """Log-probabilities and scores are in fp32 in both."""
    ours, theirs = ours_and_fairseqs(decoding, beam, device, dtype)
    for own, reference in zip(ours, theirs):
        assert own[0]["positional_scores"].dtype == reference[0]["positional_scores"].dtype
        assert own[0]["score"].dtype == torch.float32
    assert_near(ours, theirs)


@HALF
@pytest.mark.parametrize("decoding", MEMBERS)
def test_half_precision_models(decoding, dtype, device):
    """As with --fp16."""
    assert_near(decode(decoding, device, dtype), decode(decoding, CPU))


def assert_near(ours, exact):
    """As rounding allows: most sentences the same, and their scores near."""
    pairs = [(own[0], reference[0]) for own, reference in zip(ours, exact)]
    same = [(a, b) for a, b in pairs if a["tokens"].tolist() == b["tokens"].tolist()]
    assert len(same) >= 0.7 * len(pairs)
    for own, reference in same:
        assert own["score"].item() == pytest.approx(reference["score"].item(), abs=0.1)


def test_a_shortlist(device, tmp_path):
    lines = [(f"w{i}", f"w{j}", 0.05) for i in range(20) for j in range(20)]
    table = str(write_table(tmp_path / "lex.s2t", lines))
    options = dict(shortlist=table, shortlist_best=20)
    assert_same(decode("greedy", device, **options), decode("greedy", CPU), atol=1e-4)


def test_a_model_that_moves_after_its_generator_is_built(device):
    """As with --eval-bleu: fairseq-train builds the generator, then moves the model."""
    model = model_for("greedy")
    generator = generator_for(model, "greedy")
    model.to(device)
    ours = generator.generate([model], batch_for("greedy", device))
    theirs = decode("greedy", CPU)[: len(ours)]
    assert_same(ours, theirs, atol=1e-4)


@NEEDS_GPU
@pytest.mark.parametrize("decoding", MEMBERS)
def test_memory_does_not_grow_from_batch_to_batch(decoding):
    device = torch.device("cuda")
    model = model_for(decoding).to(device)
    generator = generator_for(model, decoding)
    batch = batch_for(decoding, device)
    used = []
    for _ in range(10):
        generator.generate([model], batch)
        used.append(torch.cuda.memory_allocated(device))
    assert used[-1] == used[-2] == used[-3]
