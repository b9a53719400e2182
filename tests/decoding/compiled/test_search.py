"""One compiled search serves many batches."""

import pytest
import torch

from tests.support import tiny
from tests.support.against_fairseq import our_generator
from tests.support.compiled import compiled
from tests.support.trained_models import TASK

pytestmark = compiled

METHODS = ["greedy", "gs_jacobi", "beam"]


@pytest.fixture
def model():
    """A model of its own, whose parameters a test may change."""
    return tiny.stir(tiny.build_model(TASK))


def generator_of(model, decoding):
    return our_generator([model], decoding, max_len_b=12, beam=2 if decoding == "beam" else 1)


@pytest.mark.parametrize("decoding", METHODS)
def test_a_search_is_used_again(model, decoding):
    own = generator_of(model, decoding).search
    with own.search_for(5, 13) as first:
        pass
    with own.search_for(3, 13) as second:
        assert second is first


@pytest.mark.parametrize("decoding", METHODS)
def test_a_search_that_an_error_ends_is_not_used_again(model, decoding):
    """Sentences would be under way in it."""
    own = generator_of(model, decoding).search
    with pytest.raises(KeyboardInterrupt), own.search_for(5, 13) as first:
        raise KeyboardInterrupt
    with own.search_for(5, 13) as second:
        assert second is not first


@pytest.mark.parametrize("decoding", METHODS)
def test_changed_parameters_need_another_search(model, decoding):
    generator = generator_of(model, decoding)
    sample = tiny.random_batch(TASK, [5, 2])
    generator.generate([model], sample)
    with generator.search.search_for(5, 13) as first:
        pass
    with torch.no_grad():
        model.decoder.output_projection.weight.mul_(0.5)
    generator.generate([model], sample)
    with generator.search.search_for(5, 13) as second:
        assert second is not first
