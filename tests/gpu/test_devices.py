"""No tensor is on another device than those that it meets."""

import pytest
import torch
from fairseq import utils

from fairseq_fastdec.engine.cuda_graphs import graphs
from fairseq_fastdec.engine.cuda_graphs.recorders import RECORDERS
from fairseq_fastdec.generators.methods import METHODS
from tests.support.lexical_tables import write_table
from tests.support.placement import CPU, assert_same, batch_for, decode, generator_for, model_for
from tests.support.pretended_gpu import GPU, PretendedTensor, on_gpu, pretended_gpu
from tests.support.tape import TapeRecorder, given_up


@pytest.fixture
def recorder(monkeypatch):
    """On what says that it is a GPU."""
    recorder = TapeRecorder()
    monkeypatch.setitem(
        RECORDERS, "auto", lambda device: recorder if device.type == "cuda" else None
    )
    monkeypatch.setattr(graphs, "OCCURRENCES", 2)
    monkeypatch.setattr(graphs.StepGraphs, "_give_up", given_up)
    return recorder


def decode_there(decoding, dtype=torch.float32, **options):
    model = on_gpu(model_for(decoding).to(dtype))
    sample = utils.apply_to_sample(PretendedTensor, batch_for(decoding, CPU))
    with pretended_gpu():
        generator = generator_for(model, decoding, **options)
        for _ in range(2):
            hypotheses = generator.generate([model], sample)
    for own in hypotheses:
        for hypothesis in own:
            for name in ("tokens", "score", "positional_scores"):
                assert hypothesis[name].device == GPU
                hypothesis[name] = hypothesis[name].held
    return hypotheses


def assert_as_on_a_cpu(hypotheses, decoding):
    assert_same(hypotheses, decode(decoding, CPU, cuda_graphs="off")[: len(hypotheses)], atol=1e-4)


@pytest.mark.parametrize("decoding", METHODS)
def test_hypotheses_and_recorded_steps(decoding, recorder):
    assert_as_on_a_cpu(decode_there(decoding), decoding)
    assert recorder.tapes


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
@pytest.mark.parametrize("decoding", METHODS)
def test_half_precision_models(decoding, dtype, recorder):
    decode_there(decoding, dtype)
    assert recorder.tapes


@pytest.mark.parametrize("decoding", ["greedy", "blockwise", "streaming"])
def test_products_in_bf16(decoding, recorder):
    decode_there(decoding, engine_precision="bf16")
    assert recorder.tapes


@pytest.mark.parametrize("draft", ["pad", "copy", "previous", "ngram", "source"])
def test_drafts(draft, recorder):
    assert_as_on_a_cpu(decode_there("lookahead", draft=draft), "lookahead")


def test_trees_of_proposals(recorder):
    """Recorded steps, and steps of trees without a recording, by turns."""
    assert_as_on_a_cpu(decode_there("blockwise", proposal_tree=7), "blockwise")


def test_a_shortlist(recorder, tmp_path):
    lines = [(f"w{i}", f"w{j}", 0.05) for i in range(20) for j in range(20)]
    table = write_table(tmp_path / "lex.s2t", lines)
    assert_as_on_a_cpu(decode_there("greedy", shortlist=table, shortlist_best=20), "greedy")


def test_without_graphs(recorder):
    assert_as_on_a_cpu(decode_there("beam", cuda_graphs="off"), "beam")
    assert not recorder.tapes


def test_devices_that_do_not_meet():
    """That the stand-in is strict."""
    there, here = PretendedTensor(torch.ones(3)), torch.ones(3)
    with pretended_gpu():
        assert (there + torch.ones(3, device=GPU)).device == GPU
        assert (here.to(there.device) + there).cpu().tolist() == [2] * 3
        for meet in (lambda: there + here, lambda: here[there.long()], lambda: there + there.cpu()):
            with pytest.raises(RuntimeError, match="on cuda and on cpu"):
                meet()
