"""The best next token in one pass over the output layer: what torch finds in all logits."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.engine.kernels import loading
from fairseq_fastdec.engine.kernels.best_token import CHUNK_OUTPUTS, BestToken
from fairseq_fastdec.engine.kernels.packed import PackedLinear
from fairseq_fastdec.engine.products.precision import PRECISIONS
from tests.support.compiled import PRECISIONS as NAMES
from tests.support.compiled import compiled

PAD, EOS, UNK = 1, 2, 3


def layer_of(n_outputs, n_inputs=24, precision="model", seed=0):
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(n_outputs, n_inputs, generator=generator)
    bias = torch.randn(n_outputs, generator=generator)
    return PRECISIONS[precision].linear(weight, bias)


def states_of(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def expected_of(logits, never=(), penalty=0.0, temperature=1.0, no_end=None, only_end=None):
    """The log-probabilities ``[n, V]`` that are possible."""
    log_probs = torch.log_softmax(logits / temperature, dim=-1)
    log_probs = log_probs.nan_to_num(nan=-math.inf, posinf=math.inf, neginf=-math.inf)
    log_probs[:, list(never)] = -math.inf
    log_probs[:, UNK] -= penalty
    for row in range(len(logits)):
        if no_end is not None and no_end[row]:
            log_probs[row, EOS] = -math.inf
        if only_end is not None and only_end[row]:
            own = log_probs[row, EOS].clamp(min=torch.finfo(torch.float32).min).clone()
            log_probs[row] = -math.inf
            log_probs[row, EOS] = own
    return log_probs


def test_without_compiled_code_there_is_none(nothing_compiled):
    assert BestToken.of((PAD,), EOS, UNK, 0.0) is None


@compiled
@pytest.mark.parametrize("precision", NAMES)
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_what_torch_finds(precision, data):
    sizes = [4, 31, 32, 33, CHUNK_OUTPUTS - 1, CHUNK_OUTPUTS, CHUNK_OUTPUTS + 1, 900]
    n_outputs = data.draw(st.sampled_from(sizes))
    n = data.draw(st.integers(0, 9))
    options = dict(
        never=data.draw(st.sampled_from([(), (PAD,), (PAD, 0)])),
        penalty=data.draw(st.sampled_from([0.0, 2.5, -3.0])),
        temperature=data.draw(st.sampled_from([1.0, 0.4])),
    )
    flags = st.none() | st.lists(st.booleans(), min_size=n, max_size=n).map(
        lambda values: torch.tensor(values, dtype=torch.bool)
    )
    ends = dict(no_end=data.draw(flags), only_end=data.draw(flags))
    if None not in ends.values():
        ends["no_end"] &= ~ends["only_end"]  # no step has both
    layer = layer_of(n_outputs, precision=precision, seed=data.draw(st.integers(0, 99)))
    states = states_of(n, 24)
    best = BestToken.of(options["never"], EOS, UNK, options["penalty"], options["temperature"])
    registers = data.draw(st.sampled_from([4, 8, 16]))
    loading.library().set_width(registers)
    try:
        scores, tokens = best(states, layer.packed, **ends)
        log_probs = expected_of(layer(states), **options, **ends)
    finally:
        loading.library().set_width(16)
    assert tokens.shape == scores.shape == (n,)
    torch.testing.assert_close(scores, log_probs.max(dim=-1).values, atol=2e-5, rtol=2e-5)
    torch.testing.assert_close(
        log_probs.gather(1, tokens[:, None])[:, 0], scores, atol=2e-5, rtol=2e-5
    )


@compiled
def test_a_state_gives_the_same_alone_and_for_any_number_of_threads(monkeypatch):
    layer, states = layer_of(1000), states_of(3, 7, 24)
    best = BestToken.of((PAD,), EOS, UNK, 1.0)
    together = best(states, layer.packed)
    for row in range(3):
        for column in range(7):
            alone = best(states[row, column], layer.packed)
            assert [float(part) for part in alone] == [
                float(part[row, column]) for part in together
            ]
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert all(map(torch.equal, best(states, layer.packed), together))


@compiled
def test_among_equals_the_first():
    layer = PackedLinear.of(torch.zeros(700, 8), None)
    scores, tokens = BestToken.of((0, PAD), EOS, UNK, 0.0)(torch.ones(2, 8), layer)
    assert tokens.tolist() == [2, 2]
    torch.testing.assert_close(scores, torch.full((2,), -math.log(700)))


@compiled
def test_logits_without_the_softmax():
    layer, states = layer_of(300), states_of(4, 24)
    scores, tokens = BestToken.of((PAD,), EOS, UNK, 0.0)(states, layer.packed, normalize=False)
    logits = layer(states)
    logits[:, PAD] = -math.inf
    assert torch.equal(tokens, logits.argmax(dim=-1))
    assert torch.equal(scores, logits.max(dim=-1).values)


@compiled
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_logits_that_are_no_numbers(wrong):
    """One that is NaN or infinite leaves no probability to any; but EOS may have to come."""
    weight, bias = torch.zeros(300, 8), torch.zeros(300)
    bias[290] = wrong
    layer = PackedLinear.of(weight, bias)
    only_end = torch.tensor([False, True])
    best = BestToken.of((PAD,), EOS, UNK, 0.0)
    scores, tokens = best(torch.ones(2, 8), layer, only_end=only_end)
    assert tokens.tolist() == [0, EOS]
    if wrong == -math.inf:
        torch.testing.assert_close(scores, torch.full((2,), -math.log(299)))
    else:
        assert scores.tolist() == [-math.inf, torch.finfo(torch.float32).min]


@compiled
def test_a_layer_of_some_types():
    types = torch.tensor([0, 1, 2, 3, 7, 40, 41, 290])
    layer, states = layer_of(300), states_of(20, 24)
    part = PackedLinear.of(*(p[types] for p in (layer_weight(300), layer_bias(300))))
    best = BestToken.of((PAD, 40, 5), EOS, UNK, 100.0)
    scores, tokens = best(states, part, types)
    logits = layer(states)[:, types]
    log_probs = torch.log_softmax(logits, dim=-1)
    log_probs[:, [1, 5]] = -math.inf
    log_probs[:, 3] -= 100
    assert torch.equal(tokens, types[log_probs.argmax(dim=-1)])
    torch.testing.assert_close(scores, log_probs.max(dim=-1).values)


def layer_weight(n_outputs):
    return torch.randn(n_outputs, 24, generator=torch.Generator().manual_seed(0))


def layer_bias(n_outputs):
    generator = torch.Generator().manual_seed(0)
    torch.randn(n_outputs, 24, generator=generator)
    return torch.randn(n_outputs, generator=generator)


@compiled
def test_scores_of_tokens_that_are_asked_about():
    layer, states = layer_of(700), states_of(6, 24)
    asked = torch.tensor([5, 699, PAD, -1, UNK, EOS])
    only_end = torch.tensor([False, False, False, False, False, True])
    own, scores, tokens = torch.zeros(6), torch.zeros(6), torch.zeros(6, dtype=torch.long)
    best = BestToken.of((PAD,), EOS, UNK, 1.5)
    best.bind(layer.packed)
    best.choose_at(
        states.data_ptr(),
        6,
        scores.data_ptr(),
        tokens.data_ptr(),
        only_end=only_end.data_ptr(),
        asked=asked.data_ptr(),
        asked_scores=own.data_ptr(),
    )
    log_probs = expected_of(layer(states), never=(PAD,), penalty=1.5, only_end=only_end)
    expected = [float(log_probs[row, token]) for row, token in enumerate(asked.tolist())]
    expected[3] = -math.inf
    assert own.tolist() == pytest.approx(expected, abs=1e-5)


@compiled
def test_types_without_an_end_of_sentence_are_refused():
    layer = PackedLinear.of(torch.zeros(3, 8), None)
    with pytest.raises(IndexError):
        BestToken.of((), EOS, UNK, 0.0)(torch.ones(1, 8), layer, torch.tensor([0, 1, 7]))


@compiled
def test_numbers_of_other_kinds_are_refused():
    layer, best = PackedLinear.of(torch.zeros(9, 8), None), BestToken.of((), EOS, UNK, 0.0)
    with pytest.raises(ValueError, match="states: torch.float64"):
        best(torch.ones(2, 8, dtype=torch.float64), layer)
    with pytest.raises(ValueError, match="states: "):
        best(torch.ones(2, 7), layer)
    with pytest.raises(ValueError, match="no_end: "):
        best(torch.ones(2, 8), layer, no_end=torch.tensor([True]))
