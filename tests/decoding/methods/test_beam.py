"""Beams of fixed and variable width: fairseq's hypotheses, and the rules of Yang et al. 2020."""

import math

import pytest
from fairseq.search import DiverseBeamSearch, LengthConstrainedBeamSearch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.decoding.methods.beam import counts_source_end, is_diversity_cumulative
from fairseq_fastdec.decoding.methods.beams import Beam, BeamRule, Candidate
from tests.support import tiny
from tests.support.against_fairseq import (
    fairseq_hypotheses,
    lengths_strategy,
    options_strategy,
)
from tests.support.compiled import compiled, examples
from tests.support.to_read import (
    assert_as_compiled,
    assert_same_lists,
    compiled_method,
    decoded,
    fp64_model,
    method_to_read,
)
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


def diverse_hypotheses(models, sample, beam, groups, strength, cumulative, prefix, **options):
    """fairseq's, with the rule of 0.12.2 or of 0.12.3 (cumulative)."""
    rule = DiverseBeamSearch(TASK.target_dictionary, groups, strength)
    if is_diversity_cumulative():
        rule.diversity_discount, rule.candidate_multiple = (1.0, 1) if cumulative else (0.0, 2)
    return fairseq_hypotheses(
        models, sample, prefix, beam_size=beam, search_strategy=rule, **options
    )


GROUPS = st.tuples(st.integers(1, 4), st.integers(1, 3), st.sampled_from([0.0, 0.3, 1.0, 4.0]))
RULE_OF_FAIRSEQ = "fairseq_fastdec.decoding.methods.beam.is_diversity_cumulative"
RULES = [is_diversity_cumulative()] + [False] * is_diversity_cumulative()


DIVERSE = given(
    options=options_strategy, lengths=lengths_strategy, diversity=GROUPS,
    width=st.none() | st.integers(1, 3), size=st.sampled_from([0, 3]),
    trained=st.booleans(), cumulative=st.sampled_from(RULES),
)  # fmt: skip


@settings(max_examples=15)
@DIVERSE
def test_diverse_beams_are_fairseqs(options, lengths, diversity, width, size, trained, cumulative):
    """In fp64, where no candidates are equal by chance."""
    groups, of_group, strength = diversity
    if of_group > 1 and width is not None:
        # With more, fairseq counts arbitrary tokens among the impossible ones.
        width = 1
    sample = tiny.random_batch(TASK, [max(length, width or 0) for length in lengths])
    prefix = None if width is None else sample["target"][:, :width]
    options, models = dict(options, no_repeat_ngram_size=size), [fp64_model(trained)]
    beam = groups * of_group
    expected = diverse_hypotheses(
        models, sample, beam, groups, strength, cumulative, prefix, **options
    )
    options.update(beam=beam, diverse_beam_groups=groups, diverse_beam_strength=strength)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RULE_OF_FAIRSEQ, lambda: cumulative)
        found = decoded(models, sample, "beam", prefix=prefix, **options)
    assert_same_lists(found, expected)


@compiled
# In fp32, some candidates are equal by chance.
@settings(max_examples=examples(15), derandomize=True)
@DIVERSE
def test_compiled_diverse_beams(options, lengths, diversity, width, size, trained, cumulative):
    groups, of_group, strength = diversity
    sample = tiny.random_batch(TASK, [max(length, width or 0) for length in lengths])
    prefix = None if width is None else sample["target"][:, :width]
    options = dict(options, no_repeat_ngram_size=size, beam=groups * of_group)
    options.update(diverse_beam_groups=groups, diverse_beam_strength=strength)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RULE_OF_FAIRSEQ, lambda: cumulative)
        models = [stock_model(trained=trained), stock_model(1)]
        assert_as_compiled(models, sample, "beam", prefix=prefix, **options)


@compiled
@pytest.mark.parametrize("cumulative", RULES)
@pytest.mark.parametrize("beam, groups, strength", [(4, 4, 0.5), (6, 2, 1.0), (6, 3, 0.2)])
def test_diverse_beams_of_ensembles_in_fp32(beam, groups, strength, cumulative, monkeypatch):
    models, sample = [stock_model(0), stock_model(1)], tiny.random_batch(TASK, [7, 2, 9, 4, 5])
    given = dict(max_len_a=1.2, max_len_b=4)
    expected = diverse_hypotheses(models, sample, beam, groups, strength, cumulative, None, **given)
    monkeypatch.setattr(RULE_OF_FAIRSEQ, lambda: cumulative)
    given.update(beam=beam, diverse_beam_groups=groups, diverse_beam_strength=strength)
    generator = compiled_method(models, "beam", **given)
    assert generator.decodes_compiled()
    assert_same_lists(generator.generate(models, sample), expected)


@pytest.mark.parametrize(
    "method, options, message",
    [
        ({}, dict(beam=5), "--diverse-beam-groups 2: must divide --beam 5; change either"),
        (dict(max_candidates=3), {}, "cannot be combined with --max-candidates; remove one"),
        (dict(finalize="paper"), {}, "cannot be combined with --finalize; remove one"),
        ({}, dict(sampling=True), "cannot be combined with --sampling; remove one"),
        ({}, dict(constraints="ordered"), "cannot be combined with --constraints; remove one"),
        ({}, dict(match_source_len=True), "cannot be combined with --match-source-len; remove"),
    ],
)
def test_what_diverse_beams_cannot_be_combined_with(method, options, message):
    with pytest.raises(ValueError, match=f"^--diverse-beam-groups( 2)?: .*{message[-30:]}"):
        method_to_read(
            [stock_model()], "beam", method, **{"beam": 4, "diverse_beam_groups": 2, **options}
        )


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
