"""What is drawn has the model's probabilities, and is what compiled code draws."""

import math

import pytest
import torch

from fairseq_fastdec.decoding.methods.sampling import Draws
from tests.support import tiny
from tests.support.to_read import LENGTHS, assert_as_compiled, method_to_read
from tests.support.trained_models import TASK, stock_model

LOG_PROBS = torch.tensor([-math.inf, 0.4, 0.1, 0.3, 0.2])
LOG_PROBS[1:] = LOG_PROBS[1:].log()


@pytest.mark.parametrize("decoding", ["beam", "variable_beam", "streaming"])
@pytest.mark.parametrize("options", [{}, dict(sampling_topk=3), dict(sampling_topp=0.7)], ids=str)
def test_the_samples_of_compiled_code(decoding, options):
    for models in ([stock_model()], [stock_model(), stock_model(trained=False)]):
        sample = tiny.random_batch(TASK, LENGTHS)
        given = dict(beam=4, sampling=True, max_len_b=9, temperature=2.0)
        assert_as_compiled(
            models, sample, decoding, prefix=sample["target"][:, :1], **given, **options
        )


@pytest.mark.parametrize(
    "topk, topp, expected",
    [
        (0, 0.0, {1: 0.4, 2: 0.1, 3: 0.3, 4: 0.2}),
        (2, 0.0, {1: 4 / 7, 3: 3 / 7}),
        (0, 0.6, {1: 4 / 7, 3: 3 / 7}),
        (0, 0.75, {1: 4 / 9, 3: 3 / 9, 4: 2 / 9}),
    ],
)
def test_tokens_are_drawn_by_their_probabilities(topk, topp, expected):
    torch.manual_seed(1)
    draws = Draws(topk, topp)
    draws.begin([17])
    scores, tokens = draws.draw(LOG_PROBS, 0, 5, range(4000))
    torch.testing.assert_close(scores, LOG_PROBS[tokens])
    counts = tokens.bincount(minlength=5) / 4000
    for token in range(5):
        assert counts[token].item() == pytest.approx(expected.get(token, 0), abs=0.04)


def test_a_draw_depends_on_the_sentences_number_and_not_on_its_place():
    torch.manual_seed(1)
    draws = Draws(0, 0.0)
    draws.begin([3, 9])
    first = draws.draw(LOG_PROBS, 1, 2, range(20))[1].tolist()
    draws.begin([9])
    assert draws.draw(LOG_PROBS, 0, 2, range(20))[1].tolist() == first
    assert draws.draw(LOG_PROBS, 0, 3, range(20))[1].tolist() != first


def test_samples_do_not_compete():
    with pytest.raises(ValueError, match="^--sampling: .* with --prune-threshold; remove one"):
        method_to_read([stock_model()], "beam", dict(prune_threshold=2.0), sampling=True)
