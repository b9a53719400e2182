"""``--constraints``: phrases that outputs contain, against fairseq's own search."""

import pytest
import torch
from fairseq.search import LexicallyConstrainedBeamSearch
from fairseq.token_generation_constraints import UnorderedConstraintState, pack_constraints
from hypothesis import event, given, settings
from hypothesis import strategies as st

from fairseq_fastdec.decoding.methods.lexical_constraints import ConstraintState
from tests.support import tiny
from tests.support.against_fairseq import fairseq_generator
from tests.support.compiled import compiled, examples
from tests.support.to_read import assert_same_lists, compiled_method, method_to_read
from tests.support.trained_models import (
    DOUBLE_TASKS,
    TASK,
    blockwise_model,
    double_model,
    stock_model,
)

EOS, N_SPECIAL = TASK.target_dictionary.eos(), TASK.target_dictionary.nspecial
N_TYPES = len(TASK.target_dictionary)
MAX_LEN = 12
OPTIONS = dict(max_len_a=0, max_len_b=MAX_LEN)
LONG = dict(max_len_a=0, max_len_b=40)

types = st.integers(N_SPECIAL, N_TYPES - 1)
phrases = st.lists(st.lists(types, min_size=1, max_size=3), max_size=3)
batches = st.lists(st.tuples(st.integers(0, 7), phrases), min_size=1, max_size=5)


def sample_of(lengths, constraints=None):
    sample = tiny.random_batch(TASK, lengths)
    if constraints is not None:
        own = [[torch.tensor(phrase) for phrase in given] for given in constraints]
        sample["constraints"] = pack_constraints(own)
    return sample


def ours(sample, make=method_to_read, order="unordered", models=None, **options):
    models = models or [stock_model(), stock_model(trained=False)]
    generator = make(models, "beam", constraints=order, **{**OPTIONS, **options})
    return generator.generate(models, sample, constraints=sample["constraints"])


def contains(tokens, phrase, start=0):
    """The place after the first occurrence of a phrase from ``start`` on, or -1."""
    for end in range(start + len(phrase), len(tokens) + 1):
        if tokens[end - len(phrase) : end] == phrase:
            return end
    return -1


class Corrected(UnorderedConstraintState):
    """fairseq's state, but after leaving a phrase, the token can begin the same phrase again.

    fairseq tests that before it discards what the output had of the phrase.
    """

    def __init__(self, node, copy_from=None):
        super().__init__(node, copy_from)

    def advance(self, token):
        after = super().advance(token)
        if after.node is not self.root:
            return Corrected._of(after)
        child = self.root[int(token)]
        if child is not None and after.generated[child] < child.num_constraints:
            after = UnorderedConstraintState(child, copy_from=after)
        return Corrected._of(after)

    @classmethod
    def _of(cls, state):
        state.__class__ = cls
        return state


class CorrectedSearch(LexicallyConstrainedBeamSearch):
    def init_constraints(self, batch_constraints, beam_size):
        super().init_constraints(batch_constraints, beam_size)
        for states in self.constraint_states:
            for state in states:
                state.__class__ = Corrected


def of_fairseq(models, sample, beam, search=CorrectedSearch):
    strategy = search(TASK.target_dictionary, "unordered")
    generator = fairseq_generator(models, beam, search_strategy=strategy, **LONG)
    return generator.generate(models, sample, constraints=sample["constraints"])


@settings(max_examples=30)
@given(length=st.integers(0, 7), own=phrases, beam=st.integers(1, 5), one=st.booleans())
def test_the_hypotheses_of_fairseq(length, own, beam, one):
    """Of a sentence alone that ends by itself: fairseq does not begin phrases for lack of room."""
    models = [stock_model()] if one else [stock_model(), stock_model(seed=1)]
    sample = sample_of([length], [own])
    try:
        expected = of_fairseq(models, sample, beam)
    except (AssertionError, IndexError):
        event("none of its hypotheses has all phrases")
        return
    ends = max(len(one["tokens"]) for one in expected[0]) <= LONG["max_len_b"] - sum(map(len, own))
    event(f"compared: {ends}")
    if ends:
        assert_same_lists(ours(sample, models=models, beam=beam, **LONG), expected)


@pytest.mark.parametrize("beam", [2, 4])
def test_the_hypotheses_of_fairseq_as_it_is(beam):
    """With phrases of one token, which it follows correctly."""
    models = [stock_model()]
    for token in range(N_SPECIAL, N_TYPES):
        sample = sample_of([5], [[[token]]])
        expected = of_fairseq(models, sample, beam, LexicallyConstrainedBeamSearch)
        for order in ("ordered", "unordered"):
            assert_same_lists(ours(sample, order=order, models=models, beam=beam), expected)


@pytest.mark.parametrize("order", ["ordered", "unordered"])
@settings(max_examples=examples(30))
@given(batch=batches, beam=st.integers(1, 10), one=st.booleans())
@compiled
def test_every_hypothesis_contains_its_phrases(order, batch, beam, one):
    """In torch and in compiled code, which have the same hypotheses, and in any batch."""
    models = [stock_model()] if one else [stock_model(), stock_model(trained=False)]
    lengths, constraints = map(list, zip(*batch))
    sample = sample_of(lengths, constraints)
    given = dict(order=order, models=models, beam=beam)
    found = ours(sample, **given)
    assert_same_lists(ours(sample, compiled_method, **given), found)
    for own, hypotheses in zip(constraints, found):
        for hypothesis in hypotheses:
            tokens, end = hypothesis["tokens"].tolist(), 0
            for phrase in own:
                end = contains(tokens, phrase, end if order == "ordered" else 0)
                assert end >= 0
    for number in range(len(batch)):
        alone = sample_of(lengths, constraints)
        net_input = {
            key: value[number : number + 1] for key, value in alone["net_input"].items()
        }  # fmt: skip
        alone = dict(net_input=net_input, constraints=alone["constraints"][number : number + 1])
        assert_same_lists(ours(alone, compiled_method, **given), [found[number]])


@compiled
@pytest.mark.parametrize("make", [method_to_read, compiled_method])
def test_without_phrases_the_search_is_that_of_beam(make):
    lengths = [4, 0, 6]
    sample = sample_of(lengths, [[], [], []])
    plain = method_to_read([stock_model()], "beam", beam=4, **OPTIONS)
    expected = plain.generate([stock_model()], sample)
    assert_same_lists(ours(sample, make, models=[stock_model()], beam=4), expected)


@compiled
@pytest.mark.parametrize("make", [method_to_read, compiled_method])
def test_phrases_that_fill_the_output(make):
    """They are written without a token between them."""
    own = [[N_SPECIAL, N_SPECIAL + 1], [N_SPECIAL + 2] * (MAX_LEN - 2)]
    found = ours(sample_of([5], [own]), make, beam=3)
    for hypothesis in found[0]:
        assert sorted(hypothesis["tokens"].tolist()) == sorted([*own[0], *own[1], EOS])


@compiled
def test_the_rules_of_transformers_count_phrases():
    sample = sample_of([4, 5], [[[N_SPECIAL + 3]], [[N_SPECIAL, N_SPECIAL + 1]]])
    models = [stock_model()]
    found = [
        make(models, "beam", dict(finalize="hf"), beam=3, constraints="unordered", **OPTIONS)
        for make in (method_to_read, compiled_method)
    ]
    found = [own.generate(models, sample, constraints=sample["constraints"]) for own in found]
    assert_same_lists(*found)
    for hypothesis in found[0][0]:
        assert hypothesis["positional_scores"].lt(0).all()


@compiled
@pytest.mark.parametrize("make", [method_to_read, compiled_method])
def test_phrases_that_are_too_long(make):
    with pytest.raises(ValueError, match="constraints: 13 tokens, .* room for 12"):
        ours(sample_of([5], [[[N_SPECIAL] * (MAX_LEN + 1)]]), make, beam=3)


@compiled
@pytest.mark.parametrize(
    "method, options",
    [
        ("variable_beam", {}),
        ("streaming", {}),
        ("beam", dict(sampling=True)),
        ("beam", dict(prune_threshold=1.0)),
        ("greedy", {}),
        ("double_token", {}),
    ],
)
def test_methods_without_constraints(method, options):
    own = {name: options[name] for name in options if name == "prune_threshold"}
    others = {name: options[name] for name in options if name not in own}
    with pytest.raises(ValueError, match="--constraints: not possible with"):
        compiled_method([stock_model()], method, own, constraints="unordered", **others)


@given(
    own=st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=3), min_size=1, max_size=3),
    ordered=st.booleans(),
    output=st.lists(st.integers(0, 2), max_size=12),
)
def test_constraints_are_met_only_by_outputs_that_contain_them(own, ordered, output):
    progress = ConstraintState.begin(own, ordered)
    for token in output:
        progress = progress.after(token)
    if progress.are_met:
        end = 0
        for phrase in own:
            end = contains(output, phrase, end if ordered else 0)
            assert end >= 0
    assert 0 <= progress.bank <= progress.n_tokens


def with_forbidden(lengths, forbidden):
    sample = sample_of(lengths)
    sample["forbidden"] = forbidden
    return sample


@compiled
@pytest.mark.parametrize(
    "method", ["greedy", "blockwise", "beam", "streaming", "lookahead", "jacobi"]
)
@settings(max_examples=examples(8))
@given(batch=batches, size=st.sampled_from([0, 3]))
def test_forbidden_phrases_do_not_occur(method, batch, size):
    """Each sentence has its own; without them its translation is as before."""
    models = [blockwise_model() if method == "blockwise" else stock_model()]
    lengths, forbidden = map(list, zip(*batch))
    options = dict(beam=3 if method in ("beam", "streaming") else 1, no_repeat_ngram_size=size)
    makers = [method_to_read, compiled_method]
    ours, theirs = (
        make(models, method, **OPTIONS, **options).generate(
            models, with_forbidden(lengths, forbidden)
        )
        for make in makers
    )
    assert_same_lists(ours, theirs)
    plain = method_to_read(models, method, **OPTIONS, **options)
    plain = plain.generate(models, sample_of(lengths))
    for own, hypotheses, expected in zip(forbidden, ours, plain):
        tokens = [one["tokens"].tolist() for one in hypotheses]
        assert all(contains(output, phrase) < 0 for output in tokens for phrase in own)
        before = [one["tokens"].tolist() for one in expected]
        if all(contains(output, phrase) < 0 for output in before[:1] for phrase in own):
            assert method != "greedy" or tokens == before


def test_methods_without_forbidden_phrases():
    models, task = [double_model()], DOUBLE_TASKS["bidirectional"]
    method = compiled_method(models, "double_token", task=task)
    with pytest.raises(ValueError, match="forbidden: not possible with --decoding double_token"):
        method.generate(models, with_forbidden([3], [[[N_SPECIAL]]]))
