"""A batch of outputs: what rows take, when they leave, and which tokens the rules forbid."""

import math

import torch

from fairseq_fastdec.decoding.constraints import GenerationRules
from fairseq_fastdec.decoding.methods.outputs import OutputBatch, agreeing
from fairseq_fastdec.decoding.request import Request, Sources
from fairseq_fastdec.network import Ensemble
from tests.support import tiny
from tests.support.trained_models import TASK, stock_model

WORDS = TASK.target_dictionary
PAD, EOS, V = WORDS.pad(), WORDS.eos(), len(WORDS)


def batch_of(lengths, **rules):
    sources = Sources.of(tiny.random_batch(TASK, lengths), PAD)
    network = Ensemble([stock_model(trained=False)])
    network.encode(sources.net_input)
    rules = GenerationRules(PAD, WORDS.unk(), EOS, **{"max_len_b": 8, **rules})
    request = Request(sources, list(range(len(lengths))), EOS)
    limits = rules.limits([sources.width] * len(lengths), [0] * len(lengths))
    return OutputBatch(network, rules, request, limits)


def test_rows_take_their_tokens_up_to_an_end():
    batch = batch_of([3, 2, 4])
    last = batch.open()
    assert last.tolist() == [EOS] * 3
    with torch.no_grad():
        batch.step(torch.tensor([[EOS, 5, 6, 7]] * 3))
    tokens = torch.tensor([[5, 6, 7, 8], [5, EOS, 7, 8], [5, 6, EOS, 8]])
    n = batch.keep(tokens, -torch.ones(3, 4), torch.tensor([4, 4, 2]))
    assert n.tolist() == [4, 2, 2]
    (rest,) = batch.without_finished(torch.tensor([0, 1, 2]))
    assert rest.tolist() == [0, 2] == batch.sentence.tolist()
    assert batch.lengths.tolist() == [4, 2] and batch.network.n_rows == 2
    assert batch.tail(3, 0).tolist() == [[6, 7, 8], [0, 5, 6]]
    assert batch.most_left(0) == 7 and batch.most_left(20) == 1
    # A certain EOS ends a row; its block has one token.
    certain = batch.without_ended(torch.tensor([EOS, 9]), torch.tensor([-3.0, -4.0]), rest)
    assert [part.tolist() for part in certain] == [[9], [-4.0], [2]]
    assert batch.without_ended(torch.tensor([EOS]), torch.tensor([-5.0]))[0].tolist() == []
    results = batch.results()
    assert [result.blocks for result in results] == [[4, 1], [2], [2, 1]]
    assert [result.steps for result in results] == [1, 1, 1]
    first = results[0].hypotheses[0]
    assert first["tokens"].tolist() == [5, 6, 7, 8, EOS]
    assert first["positional_scores"].tolist() == [-1, -1, -1, -1, -3]


def test_ended_rows_wait_until_they_are_looked_for():
    """As on a GPU."""
    batch = batch_of([3, 2])
    batch.look_every = 3
    last = batch.open()
    for token in range(3):
        with torch.no_grad():
            batch.step(last[:, None])
        tokens = torch.tensor([[5 + token], [EOS]])
        n = batch.keep(tokens, -torch.ones(2, 1), torch.ones(2, dtype=torch.long))
        (last,) = batch.without_finished(tokens.squeeze(1))
        assert n.tolist() == [1, int(token == 0)]
        assert batch.sentence.tolist() == ([0] if token == 2 else [0, 1])
    assert batch.network.n_rows == 1 and batch.lengths.tolist() == [3]
    batch.append(torch.tensor([[EOS]]), -torch.ones(1, 1), torch.tensor([1]))
    batch.look_every = 1
    batch.without_finished()
    assert batch.output_lengths().tolist() == [4, 1]
    results = batch.results()
    assert [result.steps for result in results] == [3, 1]
    assert [result.blocks for result in results] == [[1, 1, 1, 1], [1]]
    tokens = [result.hypotheses[0]["tokens"].tolist() for result in results]
    assert tokens == [[5, 6, 7, EOS], [EOS]]


def test_the_rules_about_lengths():
    batch = batch_of([3, 3], max_len_b=3, min_len=2)
    batch.open()
    log_probs = batch.limited(torch.zeros(2, 5, V), range(5))
    may_end = log_probs[0, :, EOS].gt(-math.inf).tolist()
    may_go_on = log_probs[0, :, 7].gt(-math.inf).tolist()
    assert may_end == [False, False, True, True, True]
    assert may_go_on == [True, True, True, False, False]
    assert log_probs[..., PAD].eq(-math.inf).all()


def test_no_ngram_comes_twice():
    batch = batch_of([3], no_repeat_ngram_size=2)
    batch.open()
    with torch.no_grad():
        features = batch.step(torch.tensor([[EOS, 5, 6]]))
        log_probs = batch.log_probs(features, first=0)
        # The output will be EOS 5 6; nothing comes twice yet.
        assert log_probs[0, 2, [5, 6]].gt(-math.inf).all()
        batch.keep(torch.tensor([[5, 6, 5]]), torch.zeros(1, 3), torch.tensor([3]))
        log_probs = batch.log_probs(batch.step(torch.tensor([[7, 5, 7]])), first=1)
    # Behind 5 6 5 7 5 neither 6 nor 7 can come; behind 5 6 5 7 5 7 no 5.
    forbidden = [own.eq(-math.inf).nonzero().flatten().tolist() for own in log_probs[0, :, 4:]]
    assert forbidden == [[], [6 - 4, 7 - 4], [5 - 4]]


def test_the_number_of_right_drafts():
    drafts, answers = torch.tensor([[5, 6, 7], [5, 9, 7]]), torch.tensor([[5, 6, 7], [5, 6, 7]])
    assert agreeing(drafts, answers).tolist() == [3, 1]
    assert agreeing(drafts[:, :0], answers[:, :0]).tolist() == [0, 0]
