"""The recurrent unit of Marian's decoders, against a loop over the formula."""

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

from fairseq_fastdec.models.ssru import SSRU, SSRUDecoderLayer
from tests.support import tiny
from tests.support.full_forward import random_targets

TASK = tiny.task(20)
ARCH = "ssru_transformer"


def ssru(dim=8, seed=0):
    torch.manual_seed(seed)
    return tiny.stir(SSRU(dim).double(), seed)


def by_hand(unit, x, state):
    """The outputs ``[T, B, C]`` and the last state ``[B, C]``, number by number."""
    weight, forget = unit.input_proj.weight, unit.forget_proj
    outputs = torch.zeros_like(x)
    for sentence in range(x.size(1)):
        c = state[sentence].clone()
        for step in range(x.size(0)):
            h = x[step, sentence]
            f = 1 / (1 + torch.exp(-(forget.weight @ h + forget.bias)))
            c = f * c + (1 - f) * (weight @ h)
            outputs[step, sentence] = c.clamp(min=0)
        state[sentence] = c
    return outputs, state


@pytest.mark.parametrize("n_steps", [1, 2, 7])
def test_outputs_are_those_of_the_formula(n_steps):
    unit = ssru()
    x = torch.randn(n_steps, 3, 8, dtype=torch.float64)
    with torch.no_grad():
        expected, _ = by_hand(unit, x, torch.zeros(3, 8, dtype=torch.float64))
        torch.testing.assert_close(unit(x)[0], expected)
        assert unit(x)[1] is None


@pytest.mark.parametrize("parts", [[7], [1] * 7, [3, 4], [1, 5, 1]])
def test_a_state_is_kept_between_calls(parts):
    unit, incremental = ssru(), {}
    x = torch.randn(7, 3, 8, dtype=torch.float64)
    with torch.no_grad():
        found = [unit(part, incremental_state=incremental)[0] for part in x.split(parts)]
        torch.testing.assert_close(torch.cat(found), unit(x)[0])


def test_rows_are_reordered():
    unit, incremental = ssru(), {}
    x, order = torch.randn(4, 3, 8, dtype=torch.float64), torch.tensor([2, 0, 0, 1])
    with torch.no_grad():
        unit(x[:3], incremental_state=incremental)
        unit.reorder_incremental_state(incremental, order)
        found = unit(x[3:, order], incremental_state=incremental)[0]
        torch.testing.assert_close(found, unit(x[:, order])[0][3:])
    unit.reorder_incremental_state({}, order)


def test_every_parameter_gets_a_gradient():
    unit = ssru()
    unit(torch.randn(4, 3, 8, dtype=torch.float64))[0].sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in unit.parameters())
    assert [name for name, _ in unit.named_parameters()] == [
        "input_proj.weight", "forget_proj.weight", "forget_proj.bias",
    ]  # fmt: skip


def test_layers_have_a_unit_in_place_of_self_attention():
    decoder = tiny.build_model(TASK, ARCH).decoder
    assert all(type(layer) is SSRUDecoderLayer for layer in decoder.layers)
    assert all(isinstance(layer.self_attn, SSRU) for layer in decoder.layers)
    # Positions are those of a stock decoder.
    assert decoder.embed_positions is not None


@pytest.mark.parametrize("norms_before", [False, True])
def test_incremental_decoding(norms_before):
    model = tiny.stir(tiny.build_model(TASK, ARCH, decoder_normalize_before=norms_before))
    batch, tokens = tiny.random_batch(TASK, [4, 7]), random_targets(TASK, 2, 6)
    net_input = {**batch["net_input"], "prev_output_tokens": tokens}
    order, state, steps = torch.tensor([1, 0, 1]), {}, []
    with torch.no_grad():
        full = model(**net_input)[0]
        encoded = model.encoder(net_input["src_tokens"], net_input["src_lengths"])
        for length in range(1, 7):
            if length == 4:
                model.decoder.reorder_incremental_state_scripting(state, order)
                encoded = model.encoder.reorder_encoder_out(encoded, order)
                tokens, full = tokens[order], full[order]
                steps = [step[order] for step in steps]
            logits, _ = model.decoder(
                tokens[:, :length], encoder_out=encoded, incremental_state=state
            )
            steps.append(logits)
    torch.testing.assert_close(torch.cat(steps, dim=1), full, atol=1e-5, rtol=1e-5)


def test_later_tokens_have_no_effect_on_earlier_ones():
    model = tiny.stir(tiny.build_model(TASK, ARCH))
    batch, tokens = tiny.random_batch(TASK, [4]), random_targets(TASK, 1, 6)
    changed = tokens.clone()
    changed[0, 4:] = torch.tensor([4, 5])
    with torch.no_grad():
        first, second = (
            model(**{**batch["net_input"], "prev_output_tokens": own})[0]
            for own in (tokens, changed)
        )
    assert torch.equal(first[:, :4], second[:, :4]) and not torch.equal(first, second)


def test_fairseqs_beam_search():
    """It keeps the states of the beams: the scores are those of the full forward pass."""
    model = tiny.train(tiny.build_model(TASK, ARCH), TASK, updates=60, lr=1e-2)
    sample = tiny.random_batch(TASK, [4, 7, 2])
    generator = SequenceGenerator([model], TASK.target_dictionary, beam_size=4)
    found = generator.generate([model], sample)
    assert len({len(best[0]["tokens"]) for best in found}) > 1
    for number, best in enumerate(found):
        net_input = {name: own[number : number + 1] for name, own in sample["net_input"].items()}
        for hypothesis in best:
            tokens = hypothesis["tokens"]
            eos = tokens.new_tensor([TASK.target_dictionary.eos()])
            inputs = torch.cat([eos, tokens[:-1]])[None]
            with torch.no_grad():
                logits = model(**{**net_input, "prev_output_tokens": inputs})[0][0]
            scores = logits.log_softmax(-1).gather(1, tokens[:, None])[:, 0]
            torch.testing.assert_close(
                scores, hypothesis["positional_scores"], atol=1e-4, rtol=1e-4
            )
