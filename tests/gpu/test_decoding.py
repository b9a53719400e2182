"""What is decoded on a device is what is decoded without it, and without graphs."""

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

from fairseq_fastdec.engine import DecoderSession
from fairseq_fastdec.generators.methods import METHODS
from tests.support import tiny
from tests.support.full_forward import full_logits, random_targets
from tests.support.lexical_tables import write_table
from tests.support.placement import (
    CPU,
    assert_same,
    batch_for,
    decode,
    generator_for,
    model_for,
    tokens_of,
)
from tests.support.trained_models import TASK

MEMBERS = ("greedy", "blockwise", "lookahead", "beam", "streaming", "double_token")


def graphs_of(generator):
    (session,) = generator.session.members
    return session.graphs


@pytest.mark.parametrize("decoding", METHODS)
def test_the_hypotheses_of_a_cpu(decoding, device):
    assert_same(decode(decoding, device), decode(decoding, CPU, cuda_graphs="off"), atol=1e-4)


@pytest.mark.parametrize("decoding", METHODS)
def test_graphs_change_nothing(decoding, device):
    ours = decode(decoding, device)
    assert_same(ours, decode(decoding, device, cuda_graphs="off"), atol=1e-4)


@pytest.mark.parametrize("decoding", MEMBERS)
def test_steps_are_recorded(decoding, device):
    model = model_for(decoding).to(device)
    generator = generator_for(model, decoding)
    for seed in range(2):
        generator.generate([model], batch_for(decoding, device, seed=seed))
    graphs = graphs_of(generator)
    assert graphs.active and graphs.n_recorded


@pytest.mark.parametrize("decoding, beam", [("greedy", 1), ("blockwise", 1), ("beam", 3)])
def test_the_hypotheses_of_fairseq_on_the_same_device(decoding, beam, device):
    model = model_for(decoding).to(device)
    sample = batch_for(decoding, device)
    ours = generator_for(model, decoding).generate([model], sample)
    fairseq = SequenceGenerator([model], TASK.target_dictionary, beam_size=beam, max_len_b=15)
    theirs = fairseq.generate([model], sample)
    assert tokens_of(ours) == tokens_of(theirs)
    for own, reference in zip(ours, theirs):
        assert own[0]["score"].item() == pytest.approx(reference[0]["score"].item(), abs=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
@pytest.mark.parametrize("decoding", MEMBERS)
def test_half_precision_models(decoding, dtype, device):
    """As with --fp16."""
    assert_near(decode(decoding, device, dtype), decode(decoding, CPU, cuda_graphs="off"))


def assert_near(ours, exact):
    """As rounding allows: most sentences the same, and their scores near."""
    pairs = [(own[0], reference[0]) for own, reference in zip(ours, exact)]
    same = [(a, b) for a, b in pairs if a["tokens"].tolist() == b["tokens"].tolist()]
    assert len(same) >= 0.7 * len(pairs)
    for own, reference in same:
        assert own["score"].item() == pytest.approx(reference["score"].item(), abs=0.1)


@pytest.mark.parametrize("decoding", ["greedy", "blockwise", "beam"])
def test_products_in_bf16(decoding, device):
    ours = decode(decoding, device, engine_precision="bf16")
    assert_near(ours, decode(decoding, CPU, cuda_graphs="off"))


@pytest.mark.parametrize(
    "dtype, tolerance",
    [(torch.float32, 1e-4), (torch.float16, 0.05), (torch.bfloat16, 0.4)],
    ids=["fp32", "fp16", "bf16"],
)
@pytest.mark.parametrize("n_new", [1, 2, 3])
def test_logits_of_any_steps(dtype, tolerance, n_new, device):
    """The same steps twice, so that the second time they are replayed; rows are ragged."""
    exact_model = tiny.stir(tiny.build_model(TASK))
    batch = tiny.random_batch(TASK, [4, 9, 1])
    tokens = random_targets(TASK, 3, 12)
    exact = full_logits(exact_model, batch, tokens)
    model = exact_model.to(device, dtype)
    session = DecoderSession(model)
    for _ in range(2):
        session.reset(20)
        session.add({name: value.to(device) for name, value in batch["net_input"].items()})
        lengths = torch.zeros(3, dtype=torch.long)
        while lengths.max() + n_new <= 12:
            positions = lengths[:, None] + torch.arange(n_new)
            features = session.step(tokens.gather(1, positions).to(device))
            logits = session.project(features)[..., 0, :].float().cpu()
            expected = exact[torch.arange(3)[:, None], positions]
            torch.testing.assert_close(logits, expected, atol=tolerance, rtol=0)
            kept = (torch.arange(3) + lengths) % n_new + 1
            session.commit(kept.to(device))
            lengths += kept
    assert session.graphs.active and session.graphs.n_recorded


def test_a_shortlist(device, tmp_path):
    lines = [(f"w{i}", f"w{j}", 0.05) for i in range(20) for j in range(20)]
    table = str(write_table(tmp_path / "lex.s2t", lines))
    options = dict(shortlist=table, shortlist_best=20)
    assert_same(
        decode("greedy", device, **options), decode("greedy", CPU, cuda_graphs="off"), atol=1e-4
    )


def test_a_model_that_moves_after_its_generator_is_built(device):
    """As with --eval-bleu: fairseq-train builds the generator, then moves the model."""
    model = model_for("greedy")
    generator = generator_for(model, "greedy")
    model.to(device)
    ours = generator.generate([model], batch_for("greedy", device))
    theirs = decode("greedy", CPU, cuda_graphs="off")[: len(ours)]
    assert_same(ours, theirs, atol=1e-4)
    assert graphs_of(generator).active


@pytest.mark.parametrize("decoding", MEMBERS)
def test_memory_does_not_grow_from_batch_to_batch(decoding, device):
    model = model_for(decoding).to(device)
    generator = generator_for(model, decoding)
    batch = batch_for(decoding, device)
    used = []
    for _ in range(10):
        generator.generate([model], batch)
        used.append(footprint(generator, device))
    assert used[-1] == used[-2] == used[-3]


def footprint(generator, device):
    """What stays: on a GPU all that is allocated, on a CPU what the session keeps."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    (session,) = generator.session.members
    caches = session.network.caches
    tensors = [tensor for cache in caches for tensor in (cache._memory, cache._spare)]
    return (session.graphs.n_recorded, *(tensor.numel() for tensor in tensors))
