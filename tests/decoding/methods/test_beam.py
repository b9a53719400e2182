"""Beams of fixed and variable width: fairseq's hypotheses, and the rules of Yang et al. 2020."""

import math

import pytest
from fairseq.search import LengthConstrainedBeamSearch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.decoding.methods.beam import counts_source_end
from fairseq_fastdec.decoding.methods.beams import Beam, BeamRule, Candidate
from tests.support import tiny
from tests.support.against_fairseq import (
    fairseq_hypotheses,
    lengths_strategy,
    options_strategy,
)
from tests.support.compiled import compiled, examples
from tests.support.to_read import assert_as_compiled, assert_same_lists, decoded, method_to_read
from tests.support.trained_models import TASK, stock_model

EOS = TASK.target_dictionary.eos()
UNPRUNED = dict(finalize="fairseq", prune_threshold=math.inf, max_candidates=100)


@settings(max_examples=12)
@given(
    options=options_strategy, lengths=lengths_strategy, beam=st.integers(1, 6),
    width=st.none() | st.integers(0, 4), size=st.sampled_from([0, 2, 3]),
)  # fmt: skip
def test_the_hypotheses_of_fairseq(options, lengths, beam, width, size):
    """All of them, with --nbest as large as --beam."""
    models = [stock_model(), stock_model(trained=False)]
    # fairseq fails an assertion on a prefix that is nothing but EOS.
    sample = tiny.random_batch(TASK, [max(length, width or 0) for length in lengths])
    prefix = None if width is None else sample["target"][:, :width]
    options = dict(options, no_repeat_ngram_size=size)
    expected = fairseq_hypotheses(models, sample, prefix, beam_size=beam, **options)
    assert_same_lists(
        decoded(models, sample, "beam", prefix=prefix, beam=beam, **options), expected
    )


@compiled
@settings(max_examples=examples(15))
@given(
    options=options_strategy, lengths=lengths_strategy, beam=st.integers(1, 10),
    width=st.none() | st.integers(1, 4), size=st.sampled_from([0, 3]), counts=st.booleans(),
)  # fmt: skip
def test_match_source_len_is_fairseqs(options, lengths, beam, width, size, counts):
    """In torch and in compiled code, with and without the EOS of sources."""
    models = [stock_model(), stock_model(trained=False)]
    sample = tiny.random_batch(TASK, [max(length, width or 0) for length in lengths])
    prefix = None if width is None else sample["target"][:, :width]
    options = dict(options, no_repeat_ngram_size=size, max_len_a=0, max_len_b=20)
    added = counts - counts_source_end()
    rule = LengthConstrainedBeamSearch(TASK.target_dictionary, 1, added, 1, added)
    expected = fairseq_hypotheses(
        models, sample, prefix, beam_size=beam, search_strategy=rule, **options
    )
    options.update(beam=beam, match_source_len=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fairseq_fastdec.decoding.methods.beam.counts_source_end", lambda: counts)
        found = decoded(models, sample, "beam", prefix=prefix, **options)
        assert_same_lists(found, expected)
        assert_as_compiled(models, sample, "beam", prefix=prefix, **options)


@pytest.mark.parametrize("decoding", ["variable_beam", "streaming"])
def test_without_pruning_variable_beams_are_fairseqs(decoding):
    models, sample = [stock_model()], tiny.random_batch(TASK, [6, 6, 6])
    expected = fairseq_hypotheses(models, sample, beam_size=4, max_len_b=12)
    ours = decoded(models, sample, decoding, UNPRUNED, beam=4, max_len_b=12)
    assert_same_lists(ours, expected)


def test_a_variable_beams_translation_does_not_depend_on_its_batch():
    models, lengths = [stock_model()], [9, 1, 4, 0, 7]
    sample = tiny.random_batch(TASK, lengths)
    options = dict(beam=4, max_len_a=1.0, max_len_b=2)
    together = decoded(models, sample, "variable_beam", **options)
    for index in range(len(lengths)):
        net_input = {key: value[index : index + 1] for key, value in sample["net_input"].items()}
        alone = decoded(models, {"net_input": net_input}, "variable_beam", **options)
        assert_same_lists(alone, [together[index]])


def test_pruning_narrows_beams():
    models, sample = [stock_model()], tiny.random_batch(TASK, [6, 5, 4])
    widths = []
    for threshold in (math.inf, 1.5, 0.0):
        generator = method_to_read(
            models, "variable_beam", dict(prune_threshold=threshold), beam=5, max_len_b=12
        )
        generator.generate(models, sample)
        costs = generator.statistics
        widths.append(costs.row_invocations / costs.beam_steps)
    assert widths[0] > widths[1] > widths[2] == 1


def candidates(*pairs):
    """Candidates of a total score and a last token."""
    return [Candidate([7, token], [0.0, total], total) for total, token in pairs]


def updated(rule, beam, *pairs):
    rule.update(beam, candidates(*pairs), EOS)
    return [
        [own.total for own in part] for part in (beam.final, beam.growing, beam.waiting)
    ]  # fmt: skip


def beam(**parts):
    return Beam(0, 10, [], 0, **parts)


def test_the_papers_rule_for_finished_candidates():
    """Appendix A.1: the best one is final, others wait on the beam and may fall off it."""
    rule = BeamRule(3, math.inf, None, "paper")
    own = beam()
    assert updated(rule, own, (-1, EOS), (-2, 8), (-3, EOS)) == [[-1], [-2], [-3]]
    # The one that waits competes, and falls off the beam.
    assert updated(rule, own, (-2.5, 8), (-2.8, 8), (-9, 8)) == [[-1], [-2.5, -2.8], []]
    assert not rule.is_done(own)
    assert updated(rule, own, (-3, EOS), (-4, EOS), (-5, 8)) == [[-1, -3, -4], [], []]
    assert rule.is_done(own)


def test_fairseqs_rule_for_finished_candidates():
    """What ends among the first k is final, and k others go on."""
    rule = BeamRule(2, math.inf, None, "fairseq")
    own = beam()
    extensions = [(-1, 8), (-2, EOS), (-3, EOS), (-4, 8)]
    assert updated(rule, own, *extensions) == [[-2], [-1, -4], []]
    assert not rule.is_done(own)
    assert updated(rule, own, (-3, EOS), (-4, 8)) == [[-2, -3], [-4], []]
    assert rule.is_done(own)


@pytest.mark.parametrize("finalize", ["paper", "fairseq"])
def test_candidates_beyond_the_threshold_are_forgotten(finalize):
    """Section 4, with the final hypotheses among the best."""
    rule = BeamRule(4, 1.5, None, finalize)
    assert updated(rule, beam(), (-1, 8), (-2.5, 8), (-2.6, 8)) == [[], [-1, -2.5], []]
    own = beam(final=candidates((-1, EOS)))
    assert updated(rule, own, (-2, 8), (-2.6, 8))[1] == [-2]


def test_the_most_extensions_of_a_candidate():
    models, sample = [stock_model(trained=False)], tiny.random_batch(TASK, [6])
    # With one extension each, a beam never has a second candidate.
    generator = method_to_read(models, "beam", dict(max_candidates=1), beam=4, max_len_b=6)
    ((own,),) = generator.generate(models, sample)
    greedy = decoded(models, sample, "greedy", max_len_b=6)
    assert own["tokens"].tolist() == greedy[0][0]["tokens"].tolist()


def test_steps_that_hold_several_batches_of_a_stream_of_any_models():
    """LSTMs keep their rows in groups; beside them rows are ragged."""
    lstm = tiny.stir(tiny.build_model(TASK, "lstm", criterion="cross_entropy"))
    sample = tiny.random_batch(TASK, [8, 6, 5, 3, 2, 0])
    for models in ([lstm], [lstm, stock_model()]):
        for policy in ("min-length", "fifo"):
            assert_as_compiled(
                models, sample, "streaming", dict(stream_policy=policy),
                capacity=dict(sentences=2), beam=3, max_len_b=8,
            )  # fmt: skip
