"""Trees of proposals: the most probable paths, and greedy's output in fewer steps."""

import argparse
import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.generators import build_generator
from fairseq_fastdec.generators.options import DecodingOptions
from fairseq_fastdec.generators.single.trees import Tree, best_tree
from tests.support import tiny
from tests.support.against_fairseq import (
    fairseq_hypotheses,
    our_generator,
    our_hypotheses,
)
from tests.support.blockwise import EOS, constant_model, generator_for, in_fp64
from tests.support.trained_models import TASK, blockwise_model

SAMPLE = tiny.random_batch(TASK, [1, 4, 8, 9, 12, 0, 7, 3, 10, 11], seed=2)


def paths_of(tree):
    """The tokens on the path to each node but the root."""
    paths = []
    for index in range(1, len(tree.tokens)):
        path, at = [], index
        while at > 0:
            path.insert(0, tree.tokens[at])
            at = tree.parents[at]
        assert len(path) == tree.depths[index]
        paths.append(tuple(path))
    return paths


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_tree_is_that_of_the_most_probable_paths(data):
    n_heads, n_best, n = (data.draw(st.integers(1, most)) for most in (4, 4, 12))
    # Sums of different powers of 2 are all different.
    exponents = data.draw(st.permutations(range(n_heads * n_best)))
    drawn = [exponents[head * n_best : (head + 1) * n_best] for head in range(n_heads)]
    scores = [sorted((-(2.0 ** (e - 9)) for e in own), reverse=True) for own in drawn]
    tokens = [[10 + 10 * head + rank for rank in range(n_best)] for head in range(n_heads)]
    tree = best_tree(5, scores, tokens, n, EOS)
    everything = {}
    for length in range(1, n_heads + 1):
        for ranks in itertools.product(range(n_best), repeat=length):
            path = tuple(tokens[head][rank] for head, rank in enumerate(ranks))
            everything[path] = sum(scores[head][rank] for head, rank in enumerate(ranks))
    best = sorted(everything, key=everything.get, reverse=True)[:n]
    assert paths_of(tree) == best
    assert (tree.tokens[0], tree.parents[0], tree.depths[0]) == (5, -1, 0)


def test_nothing_follows_the_end_and_what_is_impossible_is_left_out():
    scores = [[-0.1, -3.0, -math.inf], [-0.2, -4.0, -math.inf]]
    tree = best_tree(5, scores, [[EOS, 7, 8], [9, 10, 11]], 20, EOS)
    assert paths_of(tree) == [(EOS,), (7,), (7, 9), (7, 10)]
    assert best_tree(5, [[-math.inf]], [[7]], 20, EOS) == Tree([5], [-1], [0], [0.0])


def test_the_longest_path_that_is_agreed_with():
    tree = Tree([5, 6, 7, 8, 9], [-1, 0, 0, 2, 3], [0, 1, 1, 2, 3], [0.0, -1, -2, -3, -4])
    assert tree.path([7, 4, 8, 9, 4]) == [0, 2, 3, 4]
    assert tree.path([6, 8, 8, 9, 4]) == [0, 1]
    assert tree.path([4, 4, 8, 9, 4]) == [0]
    padded = tree.padded(7, 1)
    assert padded.path([7, 4, 8, 9, 4, 4, 4]) == [0, 2, 3, 4]
    assert padded.tokens[5:] == [1, 1] and padded.parents[5:] == [0, 0]


CONDITIONS = {
    "as it is": {},
    "a length limit": dict(max_len_b=6),
    "a shortest length": dict(min_len=9, max_len_b=14),
    "fewest and most tokens alike": dict(min_len=6, max_len_b=6),
    "unknown words": dict(unk_penalty=-2.0),
    "temperature": dict(temperature=1.7),
}


@pytest.mark.parametrize("n", [1, 6, 40])
@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=CONDITIONS)
def test_the_output_is_fairseqs_greedy_one(condition, n):
    model = blockwise_model()
    options = {"max_len_b": 12, **condition}
    expected = fairseq_hypotheses([model], SAMPLE, **options)
    ours = our_hypotheses([model], SAMPLE, "blockwise", dict(proposal_tree=n), **options)
    assert_alike(ours, expected)


@pytest.mark.parametrize("max_len_b", [3, 4, 5, 6, 7])
def test_a_length_limit_where_few_distributions_are_looked_at_at_once(max_len_b):
    """A part of a tree can be deeper than it has tokens."""
    model = blockwise_model(identity_first_head=False, freeze_base=False)
    sample = tiny.random_batch(TASK, [8, 9, 10, 12] * 20, seed=4)
    options = dict(max_len_b=max_len_b)
    expected = our_hypotheses([model], sample, "greedy", **options)
    ours = our_hypotheses([model], sample, "blockwise", dict(proposal_tree=9), **options)
    assert_alike(ours, expected)


def assert_alike(ours, expected):
    for own, other in zip(ours, expected):
        assert own[0]["tokens"].tolist() == other[0]["tokens"].tolist()
        torch.testing.assert_close(
            own[0]["positional_scores"], other[0]["positional_scores"], atol=1e-4, rtol=1e-4
        )
        assert float(own[0]["score"]) == pytest.approx(float(other[0]["score"]), abs=1e-4)


@pytest.mark.parametrize("kind", ["two models", "fp64", "learned p_1", "nothing compiled"])
def test_other_models(kind, request):
    if kind == "nothing compiled":
        request.getfixturevalue("nothing_compiled")
    models = {
        "two models": [blockwise_model(), blockwise_model(seed=1)],
        "fp64": [in_fp64(blockwise_model())],
        "learned p_1": [blockwise_model(identity_first_head=False, freeze_base=False)],
        "nothing compiled": [blockwise_model()],
    }[kind]
    expected = our_hypotheses(models, SAMPLE, "greedy", max_len_b=12)
    ours = our_hypotheses(models, SAMPLE, "blockwise", dict(proposal_tree=9), max_len_b=12)
    assert_alike(ours, expected)


def test_prefixes():
    model = blockwise_model()
    prefix = torch.tensor([[7, 8, 9], [8, 1, 1], [EOS, 1, 1]] + [[5, 5, 1]] * 7)
    given = dict(prefix_tokens=prefix, max_len_b=9)
    expected = our_hypotheses([model], SAMPLE, "greedy", **given)
    ours = our_hypotheses([model], SAMPLE, "blockwise", dict(proposal_tree=9), **given)
    assert_alike(ours, expected)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_precisions(precision):
    model = blockwise_model()
    both = [
        our_hypotheses([model], SAMPLE, decoding, method, max_len_b=12)
        for decoding, method in (
            ("greedy", dict(engine_precision=precision)),
            ("blockwise", dict(engine_precision=precision, proposal_tree=12)),
        )
    ]
    assert_alike(*both)


def slow_blocks(model, net_input, n):
    """One sentence by full forward passes: the sizes of its blocks with trees of n proposals."""
    encoded = model.encoder(net_input["src_tokens"], net_input["src_lengths"])

    def log_probs(prefix, head):
        previous = torch.tensor([[EOS, *prefix]])
        with torch.no_grad():
            logits = model.decoder(previous, encoder_out=encoded, head=head)[0][0, -1]
        logits[1] = -math.inf
        if len(prefix) + head == 0:
            logits[EOS] = -math.inf
        return logits.log_softmax(-1)

    output, blocks = [], []
    while True:
        root = int(log_probs(output, 0).argmax())
        heads = [log_probs(output, head).tolist() for head in range(1, model.decoder.block_size)]
        paths = {(): 0.0}
        for scores in heads:
            paths.update(
                {
                    (*path, token): total + scores[token]
                    for path, total in paths.items()
                    if EOS not in path and len(path) == heads.index(scores)
                    for token in sorted(range(len(scores)), key=lambda t: -scores[t])[:n]
                }
            )
        verified = set(sorted(paths, key=paths.get, reverse=True)[: n + 1])
        block = [root]
        while EOS not in block:
            following = int(log_probs(output + block, 0).argmax())
            if (*block[1:], following) not in verified:
                break
            block.append(following)
        output += block
        blocks.append(len(block))
        if EOS in output:
            return blocks


@pytest.mark.parametrize("n", [2, 7])
def test_against_the_slow_reference(n):
    model = in_fp64(blockwise_model(identity_first_head=False, freeze_base=False))
    generator = generator_for([model], max_len_b=30, proposal_tree=n)
    records = []
    generator._file.write = records.extend
    sample = tiny.random_batch(TASK, [1, 4, 8, 9], seed=2)
    hypotheses = generator.generate([model], sample)
    assert max(len(hypothesis[0]["tokens"]) for hypothesis in hypotheses) < 25
    for index, record in enumerate(records):
        net_input = {key: value[index : index + 1] for key, value in sample["net_input"].items()}
        assert record.blocks == slow_blocks(model, net_input, n)


def test_more_proposals_take_fewer_invocations():
    model = blockwise_model(identity_first_head=False, freeze_base=False)
    sample = tiny.random_batch(TASK, [8, 9, 10] * 10)
    invocations = []
    for n in (None, 3, 12, 60):
        generator = generator_for([model], proposal_tree=n)
        generator.generate([model], sample)
        invocations.append(generator.statistics.row_invocations)
    assert invocations[0] > invocations[2] > invocations[3]
    assert invocations[1] > invocations[2]


@pytest.mark.parametrize("n_tokens", [2, 9, 13])
def test_heads_that_always_agree_take_m_over_k_plus_1_invocations(n_tokens):
    model = constant_model(4)
    generator = generator_for([model], max_len_b=n_tokens - 1, proposal_tree=8)
    hypothesis = generator.generate([model], tiny.random_batch(TASK, [4]))[0][0]
    assert hypothesis["tokens"].tolist() == [7] * (n_tokens - 1) + [EOS]
    assert generator.statistics.decoder_invocations == math.ceil((n_tokens - 1) / 4) + 1


def test_a_block_of_one_has_a_root_only():
    model = tiny.stir(tiny.build_model(TASK, "blockwise_transformer", block_size=1))
    expected = our_hypotheses([model], SAMPLE, "greedy", max_len_b=12)
    ours = our_hypotheses([model], SAMPLE, "blockwise", dict(proposal_tree=5), max_len_b=12)
    assert_alike(ours, expected)


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(proposal_tree=0), "--proposal-tree 0: must be at least 1"),
        (dict(proposal_tree=8, acceptance="topk"), "--proposal-tree 8: .* --acceptance topk"),
        (dict(proposal_tree=8, min_block_size=2), "--min-block-size 2: .* --proposal-tree"),
    ],
)
def test_wrong_values_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        DecodingOptions(decoding="blockwise", **options).check()


def test_other_methods_have_no_trees():
    options = DecodingOptions(decoding="greedy", proposal_tree=8)
    with pytest.raises(ValueError, match="--proposal-tree 8: means nothing to --decoding greedy"):
        build_generator([blockwise_model()], TASK.target_dictionary, argparse.Namespace(), options)
        options.check()


def test_what_is_observed_is_what_is_kept():
    model = blockwise_model()
    generator = our_generator([model], "blockwise", dict(proposal_tree=9), max_len_b=12)
    tokens = {}

    def observe(sentences, first, drafts, answers, scores, settled, widths=None):
        for row, sentence in enumerate(sentences.tolist()):
            n = int(settled[row])
            begin = int(first[row])
            own = tokens.setdefault(sentence, {})
            for index, token in enumerate(answers[row, :n].tolist()):
                own[begin + index] = token

    generator.observer = observe
    hypotheses = generator.generate([model], SAMPLE)
    for sentence, hypothesis in enumerate(hypotheses):
        expected = hypothesis[0]["tokens"].tolist()
        own = [tokens[sentence][index] for index in range(len(expected))]
        assert own == expected
