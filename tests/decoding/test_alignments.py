"""Attention and alignments, of compiled searches and of a pass of fairseq's models."""

import pytest
import torch
from fairseq import utils
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.decoding.alignments import attention_of
from tests.support import speech, tiny
from tests.support.against_fairseq import fairseq_generator, lengths_strategy, our_generator
from tests.support.compiled import compiled, examples
from tests.support.compiled_searches import prefixes
from tests.support.trained_models import TASK, blockwise_model, stock_model

PAD, EOS = TASK.target_dictionary.pad(), TASK.target_dictionary.eos()
ENSEMBLES = {
    "trained": [dict()],
    "random": [dict(trained=False)],
    "two": [dict(), dict(seed=1)],
    "other sizes": [dict(trained=False), dict(seed=1, trained=False, decoder_attention_heads=2)],
}
METHODS = {
    "greedy": dict(),
    "blockwise": dict(),
    "lookahead": dict(),
    "jacobi": dict(),
    "gs_jacobi": dict(jacobi_block_size=3),
    "hybrid_jacobi": dict(jacobi_block_size=3, parallel_len_b=6),
    "beam": dict(beam=4),
    "variable_beam": dict(beam=4),
    "streaming": dict(beam=3),
}


def models_of(name, method):
    models = [stock_model(**given) for given in ENSEMBLES[name]]
    return [*models, blockwise_model()] if method == "blockwise" else models


def with_attention(models, method, sample, prefix=None, **options):
    own = dict(METHODS[method])
    options = {"beam": own.pop("beam", 1), **options}
    generator = our_generator(models, method, own, **options)
    return generator.generate(models, {**sample, "return_attention": True}, prefix_tokens=prefix)


def assert_is_of_a_pass(models, sample, hypotheses, atol=1e-5):
    """Compare with a pass over the whole output."""
    inputs = sample["net_input"]
    for row, of_sentence in enumerate(hypotheses):
        own = inputs["src_tokens"][row][None].expand(len(of_sentence), -1)
        lengths = inputs["src_lengths"][row].expand(len(of_sentence))
        tokens = [one["tokens"] for one in of_sentence]
        expected = attention_of(models, own, lengths, tokens, EOS, PAD)
        for one, attention in zip(of_sentence, expected):
            assert one["attention"].shape == (int(lengths[0]), len(one["tokens"]))
            torch.testing.assert_close(one["attention"], attention, atol=atol, rtol=0)


@compiled
@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=examples(12))
@given(
    lengths=lengths_strategy,
    ensemble=st.sampled_from(sorted(ENSEMBLES)),
    left_pad=st.booleans(),
    n_forced=st.integers(0, 3),
    seed=st.integers(0, 5),
)
def test_attention_of_compiled_searches(method, lengths, ensemble, left_pad, n_forced, seed):
    models = models_of(ensemble, method)
    sample = tiny.random_batch(TASK, lengths, left_pad=left_pad, seed=seed)
    prefix = prefixes(len(lengths), n_forced) if n_forced else None
    found = with_attention(models, method, sample, prefix, max_len_b=12)
    assert_is_of_a_pass(models, sample, found)


@compiled
@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("ensemble", ENSEMBLES)
def test_attention_is_that_of_fairseqs_generator(ensemble, beam):
    models = models_of(ensemble, "beam")
    sample = tiny.random_batch(TASK, [5, 0, 9, 2])
    options = dict(max_len_b=12)
    theirs = fairseq_generator(models, beam_size=beam, **options).generate(models, sample)
    ours = with_attention(models, "beam", sample, **{**options, "beam": beam})
    for source, own, stock in zip(sample["net_input"]["src_tokens"], ours, theirs):
        by_tokens = {tuple(one["tokens"].tolist()): one for one in stock}
        for one in own:
            expected = by_tokens[tuple(one["tokens"].tolist())]["attention"][source.ne(PAD)]
            torch.testing.assert_close(one["attention"], expected, atol=1e-5, rtol=0)


@compiled
@pytest.mark.parametrize("precision", ["int8", "bf16"])
def test_attention_in_other_precisions(precision):
    models, sample = [stock_model()], tiny.random_batch(TASK, [5, 9])
    generator = our_generator(models, "greedy", dict(engine_precision=precision))
    found = generator.generate(models, {**sample, "return_attention": True})
    assert_is_of_a_pass(models, sample, found, atol=0.1)


@compiled
def test_attention_does_not_depend_on_the_batch():
    models, lengths = [stock_model()], [7, 3, 11, 5]
    sample = tiny.random_batch(TASK, lengths, left_pad=False)
    for method in METHODS:
        together = with_attention(models_of("trained", method), method, sample)
        for row, of_sentence in enumerate(together):
            inputs = sample["net_input"]
            n = int(inputs["src_lengths"][row])
            alone = {
                "net_input": {
                    "src_tokens": inputs["src_tokens"][row : row + 1, :n],
                    "src_lengths": inputs["src_lengths"][row : row + 1],
                }
            }
            (own,) = with_attention(models_of("trained", method), method, alone)
            for one, other in zip(of_sentence, own):
                assert torch.equal(one["attention"], other["attention"])
    assert models


def test_attention_where_torch_decodes(nothing_compiled):
    models, sample = [stock_model()], tiny.random_batch(TASK, [5, 0, 9])
    for method in ("greedy", "beam"):
        found = with_attention(models, method, sample, max_len_b=12)
        assert_is_of_a_pass(models, sample, found)


def test_nothing_is_returned_unless_asked_for():
    models, sample = [stock_model()], tiny.random_batch(TASK, [5])
    ((found,),) = our_generator(models, "greedy").generate(models, sample)
    assert not found["attention"].numel() and not found["alignment"].numel()


@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_alignments_of_padded_sources_are_fairseqs(kind):
    models, sample = [stock_model()], tiny.random_batch(TASK, [5, 0, 9])
    generator = our_generator(models, "greedy", print_alignment=kind)
    extract = getattr(utils, f"extract_{kind}_alignment")
    sources = sample["net_input"]["src_tokens"]
    for source, (found,) in zip(sources, generator.generate(models, sample)):
        padded = torch.zeros(len(found["tokens"]), len(source))
        padded[:, source.ne(PAD)] = found["attention"].T
        assert found["alignment"] == extract(padded, source, found["tokens"], PAD, EOS)


@compiled
def test_attention_to_frames_of_speech():
    """fairseq's decoders of speech return none."""
    models, sample = [speech.random_model("s2t_transformer_xs")], speech.random_batch()
    found = with_attention(models, "beam", sample, beam=3, max_len_b=8)
    lengths = [len(own[0]["attention"]) for own in found]
    assert lengths == sorted(lengths, reverse=True) and lengths[0] > lengths[-1] > 1
    for one in sum(found, []):
        torch.testing.assert_close(one["attention"].sum(0), torch.ones(len(one["tokens"])))
    with pytest.raises(ValueError, match="^--print-alignment, .*: the model's sources are not tok"):
        our_generator(models, "greedy", print_alignment="hard")


@pytest.mark.parametrize("extra", [{}, {"attn": [None]}, {"attn": []}, None])
def test_a_model_without_attention(extra):
    model = torch.nn.Identity()
    model.forward = lambda *inputs: (None, extra)
    tokens = torch.tensor([[4, EOS]])
    with pytest.raises(ValueError, match="alignment: the model does not return attention"):
        attention_of([model], tokens, torch.tensor([2]), [tokens[0]], EOS, PAD)
