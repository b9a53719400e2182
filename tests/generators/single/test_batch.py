"""The rows of a batch: tokens, cache and statistics go on together."""

import argparse

import pytest
import torch

from fairseq_fastdec.engine import EnsembleSession
from fairseq_fastdec.generators import build_generator
from fairseq_fastdec.generators.constraints import GenerationRules
from fairseq_fastdec.generators.options import DecodingOptions
from fairseq_fastdec.generators.single.batch import Batch
from fairseq_fastdec.generators.sources import Sources
from fairseq_fastdec.generators.statistics import Statistics
from tests.support import tiny

TASK = tiny.task(20)
EOS = TASK.target_dictionary.eos()


def models(n_members):
    return [tiny.stir(tiny.build_model(TASK, seed=seed)) for seed in range(n_members)]


def batch_of(n_members=1, lengths=(4, 6), **options):
    args = argparse.Namespace(**options)
    rules = GenerationRules.from_args(args, TASK.target_dictionary, 64)
    sources = Sources.of(tiny.random_batch(TASK, list(lengths)), rules.pad)
    return Batch(EnsembleSession(models(n_members)), rules, Statistics(), sources)


@pytest.mark.parametrize("n_members", [1, 2])
def test_what_is_kept_is_what_the_next_step_follows(n_members):
    """Three of four tokens are kept: feeding them again alone gives the same next answer."""
    tokens = torch.tensor([[5, 6, 7, 8], [9, 10, 11, 12]])
    scores = torch.zeros(2, 4)
    rolled_back, plain = batch_of(n_members), batch_of(n_members)
    rolled_back.feed(tokens)
    rolled_back.keep(tokens, scores, 3)
    plain.feed(tokens[:, :3])
    plain.keep(tokens[:, :3], scores[:, :3], 3)
    following = torch.tensor([[13], [14]])
    for own, expected in zip(*(b.answers(b.feed(following)) for b in (rolled_back, plain))):
        torch.testing.assert_close(own, expected)
    assert rolled_back.lengths.tolist() == [3, 3]


def test_each_keep_is_a_block_up_to_the_end_of_sentence():
    batch = batch_of()
    tokens = torch.tensor([[5, EOS, 7], [9, 10, 11]])
    batch.feed(tokens)
    took = batch.keep(tokens, torch.zeros(2, 3), 3)
    assert took.tolist() == [2, 3]
    batch.without_finished()
    assert batch.sentence.tolist() == [1]
    batch.feed(torch.tensor([[12]]))
    batch.keep(torch.tensor([[EOS]]), torch.zeros(1, 1), 1)
    batch.without_finished()
    assert [record.blocks for record in batch.records([0, 1])] == [[2], [3, 1]]


def test_what_is_known_of_the_rows_leaves_with_them():
    batch = batch_of(n_members=2, lengths=(3, 4, 5))
    tokens = torch.tensor([[5], [EOS], [7]])
    features = batch.feed(tokens)
    batch.keep(tokens, torch.zeros(3, 1), 1)
    left, of_members = batch.without_finished(tokens[:, 0], features[:, 0])
    kept = batch.sentence.tolist()
    assert sorted(kept) == [0, 2] and left.tolist() == tokens[kept, 0].tolist()
    for own, before in zip(of_members.of_members, features.of_members):
        assert torch.equal(own, before[kept, 0])


@pytest.mark.parametrize("decoding, n_blocks", [("greedy", 0), ("lookahead", None)])
def test_methods_of_one_token_a_step_have_no_blocks(decoding, n_blocks):
    """Greedy decoding with a forced prefix told of blocks: those of the prefix alone."""
    args = argparse.Namespace(beam=1, max_len_b=12)
    options = DecodingOptions(decoding=decoding)
    generator = build_generator(models(1), TASK.target_dictionary, args, options)
    prefix = torch.tensor([[5, 6], [7, 8]])
    generator.generate(models(1), tiny.random_batch(TASK, [4, 6]), prefix_tokens=prefix)
    blocks = generator.statistics.blocks
    assert blocks == n_blocks if n_blocks is not None else blocks > 2


@pytest.mark.parametrize("lengths", [(4,), (4, 6, 3)])
@pytest.mark.parametrize("has, n", [(0, 1), (0, 3), (1, 3), (5, 2), (9, 3), (11, 1)])
def test_the_rules_about_ends_of_rows_of_one_length(lengths, has, n):
    """The host knows such steps; those of ragged rows are computed."""
    batch = batch_of(lengths=lengths, min_len=3, max_len_b=10)
    tokens = torch.full((len(lengths), has), 5)
    if has:
        batch.feed(tokens)
        batch.keep(tokens, torch.zeros(tokens.shape), has)
    for first in (0, 1):
        steps = batch.restricted_steps(first, n)
        expected = batch.best_tokens.flags_at(steps, batch.max_len, batch.n_waived)
        known = batch.end_flags(first, n)
        by_step = batch.end_flags(first, n, by_step=True)
        batch.count_block(0, 0, 1)
        assert batch._at_least < batch._at_most
        computed = batch.end_flags(first, n), batch.end_flags(first, n, by_step=True)
        batch.count_block(0, 0, -1)
        for flag, *others in zip(expected, known, computed[0]):
            assert all(same(flag, other) for other in others)
        for flag, *others in zip(expected, by_step, computed[1]):
            assert all(same(None if flag is None else flag.t(), other) for other in others)


def same(flags, others):
    if flags is None or others is None:
        return flags is others
    return torch.equal(flags, others) and others.is_contiguous()
