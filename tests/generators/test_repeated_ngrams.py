"""No n-gram twice: fairseq's rule, and the same tokens by every method."""

import pytest
import torch
from fairseq.ngram_repeat_block import NGramRepeatBlock
from fairseq.sequence_generator import SequenceGenerator
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairseq_fastdec.engine.kernels.repeats import RepeatSearch
from fairseq_fastdec.generators.constraints import GenerationRules
from fairseq_fastdec.generators.repeated_ngrams import RepeatedNgrams, forbidden_after
from tests.support import tiny
from tests.support.against_fairseq import (
    assert_same,
    fairseq_generator,
    fairseq_hypotheses,
    lengths_strategy,
    options_strategy,
    our_hypotheses,
)
from tests.support.compiled import compiled
from tests.support.trained_models import TASK, blockwise_model, stock_model

WORDS = TASK.target_dictionary
PAD = WORDS.pad()
METHODS = {
    "greedy": {},
    "jacobi": {},
    "gs_jacobi": dict(jacobi_block_size=4),
    "hybrid_jacobi": {},
    "lookahead": {},
    "auto": {},
    "blockwise": {},
}
SMALL = settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
tokens_strategy = st.lists(st.integers(4, 6), min_size=0, max_size=12)


@pytest.fixture(params=[pytest.param(True, marks=compiled), False], ids=["compiled", "torch"])
def way(request):
    if not request.param:
        request.getfixturevalue("nothing_compiled")


def repeats_of(tokens, size):
    grams = [tuple(tokens[at : at + size]) for at in range(len(tokens) - size + 1)]
    return len(grams) - len(set(grams))


@settings(deadline=None)
@given(output=tokens_strategy, size=st.integers(2, 5))
def test_the_rule_is_fairseqs(output, size):
    context = [2, *output]
    scores = NGramRepeatBlock(size)(torch.tensor([context]), torch.zeros(1, 8), 1, 1, len(output))
    assert set(forbidden_after(context, size)) == set(scores[0].isinf().nonzero()[:, 0].tolist())


def test_fairseq_itself_forbids_nothing_on_a_cpu():
    """So the tests here compare with its rule as it is meant: see ``OfTokensSoFar``."""
    models, sample = [stock_model(trained=False)], tiny.random_batch(TASK, [3, 5])
    plain, asked = (
        SequenceGenerator(models, WORDS, beam_size=1, max_len_b=14, no_repeat_ngram_size=size)
        for size in (0, 2)
    )
    found = asked.generate(models, sample)
    assert_same(found, plain.generate(models, sample))
    assert any(repeats_of(own[0]["tokens"].tolist(), 2) for own in found)


@st.composite
def blocks(draw, trees):
    """Rows, and a block of each."""
    rows = draw(st.lists(tokens_strategy, min_size=1, max_size=4))
    n = draw(st.integers(1, 5))
    block = [[draw(st.integers(4, 6)) for _ in range(n)] for _ in rows]
    parents = [[draw(st.integers(-1, at - 1)) for at in range(n)] for _ in rows] if trees else None
    return rows, block, parents, draw(st.integers(2, 4))


def path_to(token, tokens, parents):
    path = []
    while token >= 0:
        path.insert(0, tokens[token])
        token = parents[token]
    return path


@pytest.mark.parametrize("trees, comes_next", [(False, True), (False, False), (True, True)])
@SMALL
@given(data=st.data())
def test_what_is_forbidden_after_blocks(way, trees, comes_next, data):
    rows, block, parents, size = data.draw(blocks(trees))
    if not comes_next:
        rows = [[*row, own[0]] for row, own in zip(rows, block)]
    flat = torch.tensor([token for row in rows for token in row], dtype=torch.long)
    lengths = torch.tensor([len(row) for row in rows])
    starts = lengths.cumsum(0) - lengths
    found = RepeatedNgrams(size, PAD).after_blocks(
        flat, starts, lengths, 2, torch.tensor(block),
        None if parents is None else torch.tensor(parents), comes_next,
    )  # fmt: skip
    for row, own in enumerate(rows):
        for token in range(len(block[row])):
            first = 0 if comes_next else 1
            path = block[row][first : token + 1]
            if trees:
                path = path_to(token, block[row], parents[row])
            expected = set(forbidden_after([2, *own, *path], size))
            got = set() if found is None else set(found[row, token].tolist())
            assert got - {PAD} == expected


def test_more_repeats_than_there_is_room_for(way):
    row = torch.tensor([token for word in range(4, 20) for token in (3, word)] + [3])
    place = torch.tensor([0]), torch.tensor([row.numel()])
    found = RepeatedNgrams(2, PAD).after_blocks(row, *place, 2)
    assert sorted(set(found.flatten().tolist()) - {PAD}) == list(range(4, 20))


@compiled
@pytest.mark.parametrize(
    "starts, lengths, parents, error",
    [
        ([0], [9], None, IndexError),
        ([7], [2], None, IndexError),
        ([-1], [2], None, IndexError),
        ([0], [-1], None, IndexError),
        ([0], [2], [[-1, 1]], ValueError),
        ([0], [2], [[-2, 0]], ValueError),
    ],
)
def test_compiled_code_reads_what_is_there(starts, lengths, parents, error):
    search, tokens = RepeatSearch.of(3, PAD), torch.arange(8)
    trees = None if parents is None else torch.tensor(parents)
    with pytest.raises(error):
        search(
            tokens, torch.tensor(starts), torch.tensor(lengths), 2, torch.ones(1, 2).long(), trees
        )


def test_sizes_that_no_output_has():
    rules = dict(pad=PAD, unk=3, eos=2, max_positions=64)
    for size in (0, 65, 10**30):
        assert RepeatedNgrams.of(GenerationRules(**rules, no_repeat_ngram_size=size)) is None


@pytest.mark.parametrize("decoding", METHODS)
@SMALL
@given(
    options=options_strategy, lengths=lengths_strategy, seed=st.integers(0, 99),
    size=st.integers(2, 4), trained=st.booleans(),
)  # fmt: skip
def test_methods_of_one_hypothesis(way, decoding, options, lengths, seed, size, trained):
    models = [blockwise_model() if decoding == "blockwise" else stock_model(trained=trained)]
    sample = tiny.random_batch(TASK, lengths, seed=seed)
    options["no_repeat_ngram_size"] = size
    ours = our_hypotheses(models, sample, decoding, METHODS[decoding], **options)
    assert_same(ours, fairseq_hypotheses(models, sample, **options))
    assert not any(repeats_of(own[0]["tokens"].tolist(), size) for own in ours)


@pytest.mark.parametrize("decoding", ["jacobi", "gs_jacobi", "hybrid_jacobi"])
def test_blocks_of_more_distributions_than_are_held_at_once(way, decoding):
    """Beyond 128, the answers of a block are found part by part: with 70 rows token by token."""
    models, sample = [stock_model(trained=False)], tiny.random_batch(TASK, [9, 5] * 35)
    options = dict(max_len_b=16, min_len=12, no_repeat_ngram_size=2)
    method = {} if decoding == "jacobi" else dict(jacobi_block_size=8)
    ours = our_hypotheses(models, sample, decoding, method, **options)
    assert_same(ours, fairseq_hypotheses(models, sample, **options))


@SMALL
@given(
    options=options_strategy, lengths=lengths_strategy, seed=st.integers(0, 99),
    size=st.integers(2, 3), n=st.integers(2, 9),
)  # fmt: skip
def test_trees(way, options, lengths, seed, size, n):
    models, sample = [blockwise_model()], tiny.random_batch(TASK, lengths, seed=seed)
    options["no_repeat_ngram_size"] = size
    ours = our_hypotheses(models, sample, "blockwise", dict(proposal_tree=n), **options)
    assert_same(ours, fairseq_hypotheses(models, sample, **options))


@pytest.mark.parametrize("acceptance", [dict(acceptance="topk", acceptance_topk=3)], ids=str)
@pytest.mark.parametrize("min_block_size", [1, 3])
def test_accepted_proposals_repeat_nothing(way, acceptance, min_block_size):
    method = dict(acceptance, min_block_size=min_block_size)
    sample = tiny.random_batch(TASK, [9, 4, 7, 2])
    plain, ours = (
        our_hypotheses(
            [blockwise_model()], sample, "blockwise", method, max_len_b=40, min_len=30,
            no_repeat_ngram_size=size,
        )
        for size in (0, 2)
    )  # fmt: skip
    assert any(repeats_of(own[0]["tokens"].tolist(), 2) for own in plain)
    assert not any(repeats_of(own[0]["tokens"].tolist(), 2) for own in ours)


@pytest.mark.parametrize("decoding", [*METHODS, "beam"])
def test_a_prefix_that_repeats_itself_is_forced(way, decoding):
    models, sample = [blockwise_model()], tiny.random_batch(TASK, [6, 5])
    prefix = torch.tensor([[7, 8, 7, 8, 7], [9, 9, 9, PAD, PAD]])
    found = our_hypotheses(
        models, sample, decoding, prefix_tokens=prefix, max_len_b=14, no_repeat_ngram_size=2
    )
    greedy = our_hypotheses(
        models, sample, "greedy", prefix_tokens=prefix, max_len_b=14, no_repeat_ngram_size=2
    )
    assert_same(found, greedy)
    for own, forced in zip(found, prefix):
        tokens, n = own[0]["tokens"].tolist(), int(forced.ne(PAD).sum())
        assert tokens[:n] == forced[:n].tolist()
        assert repeats_of(tokens, 2) == repeats_of(tokens[:n], 2) > 0


def test_the_token_before_the_first_counts():
    """Models of several languages begin with a token that an output can hold, too."""
    models, sample = [stock_model(trained=False)], tiny.random_batch(TASK, [3, 7, 5, 2])
    options = dict(max_len_b=20, no_repeat_ngram_size=2)
    for bos in range(4, 12):
        expected = fairseq_generator(models, **options).generate(models, sample, bos_token=bos)
        for decoding in ("greedy", "lookahead", "beam"):
            assert_same(
                our_hypotheses(models, sample, decoding, bos_token=bos, **options), expected
            )


def test_a_shortlist_that_lacks_what_is_forbidden(way, tmp_path):
    path = tmp_path / "lex"
    path.write_text("".join(f"w{word} w{word} 0.5\n" for word in range(20)))
    method = dict(shortlist=str(path), shortlist_first=8, shortlist_best=1)
    sample = tiny.random_batch(TASK, [3, 7, 5])
    options = dict(max_len_b=30, min_len=20, no_repeat_ngram_size=2)
    models = [stock_model(trained=False)]
    greedy = our_hypotheses(models, sample, "greedy", method, **options)
    assert not any(repeats_of(own[0]["tokens"].tolist(), 2) for own in greedy)
    assert_same(our_hypotheses(models, sample, "lookahead", method, **options), greedy)
