"""What a task tells fairseq's generator is told to ours, or refused by name."""

from argparse import Namespace

import pytest
from fairseq.iterative_refinement_generator import IterativeRefinementGenerator
from fairseq.search import DiverseBeamSearch, Sampling
from fairseq.sequence_generator import SequenceGenerator

from fairseq_fastdec.tasks.stock_generator import for_one_beam, settings_of
from tests.support import tiny
from tests.support.language_models import random_model
from tests.support.trained_models import TASK, stock_model

WORDS = TASK.target_dictionary


def stock(**settings):
    return SequenceGenerator([stock_model(trained=False)], WORDS, **settings)


def test_what_the_task_sets_counts():
    args = Namespace(lenpen=1.0, max_len_b=7, unnormalized=False, nbest=3)
    generator = stock(
        len_penalty=0.3, unk_penalty=2.0, temperature=0.5, min_len=2, max_len_a=1.5, max_len_b=9,
        normalize_scores=False, eos=8, symbols_to_strip_from_output={5}, no_repeat_ngram_size=3,
        search_strategy=Sampling(WORDS, sampling_topp=0.5),
    )  # fmt: skip
    own, extra = settings_of(generator, args, TASK)
    assert vars(own) == dict(
        lenpen=0.3, unkpen=2.0, temperature=0.5, min_len=2, max_len_a=1.5, max_len_b=9,
        unnormalized=True, nbest=3, no_repeat_ngram_size=3, sampling=True, sampling_topk=-1,
        sampling_topp=0.5,
    )  # fmt: skip
    assert extra == dict(eos=8, symbols_to_strip_from_output={5, 8})
    assert args == Namespace(lenpen=1.0, max_len_b=7, unnormalized=False, nbest=3)


def test_a_language_model_of_the_task():
    lm = random_model()
    _, extra = settings_of(stock(lm_model=lm, lm_weight=0.3), Namespace(), TASK)
    assert extra["lm_model"] is lm and extra["lm_weight"] == 0.3


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(tokens_to_suppress=["w3"]), "suppresses tokens"),
        (dict(match_source_len=True), "matches the source's length"),
        (dict(max_len=5), "limits the length of outputs"),
        (
            dict(search_strategy=DiverseBeamSearch(WORDS, 2, 0.5), beam_size=2),
            "searches with DiverseBeamSearch",
        ),
    ],
    ids=str,
)
def test_what_no_method_does(settings, message):
    with pytest.raises(ValueError, match=f"^--decoding: TranslationTask {message}, which only"):
        settings_of(stock(**settings), Namespace(), TASK)


def test_generators_of_another_kind():
    """translation_lev's, which is not autoregressive."""
    with pytest.raises(ValueError, match="decodes with its own IterativeRefinementGenerator"):
        settings_of(IterativeRefinementGenerator(WORDS), Namespace(), TASK)


def test_the_model_stays_as_it_is():
    """A generator of several beams changes BART's attention."""
    model = tiny.build_model(TASK, "bart_base")
    args = Namespace(beam=5)
    SequenceGenerator([model], WORDS, beam_size=for_one_beam(args).beam)
    assert all(layer.encoder_attn.beam_size == 1 for layer in model.decoder.layers)
    assert args.beam == 5
