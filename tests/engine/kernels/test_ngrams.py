"""Tables of n-grams by compiled code: what Python's pools say."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.engine.kernels import ngrams
from fairseq_fastdec.engine.kernels.ngrams import NgramTable
from fairseq_fastdec.generators.single.ngrams import NgramPools
from tests.support.compiled import compiled
from tests.support.drawn import draw_tokens

EOS = 2


@compiled
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_same_guesses_as_python(data):
    order, n_sentences = data.draw(st.integers(2, 5)), data.draw(st.integers(1, 4))
    capacity = data.draw(st.sampled_from([3, 20, 1000]))
    pools = torch.tensor([data.draw(st.integers(0, 1)) for _ in range(n_sentences)])
    contexts = draw_tokens(data, n_sentences, order - 1)
    both = NgramTable.of(order, capacity, EOS), NgramPools(order, EOS, capacity)
    for table in both:
        table.open(contexts, pools)
    for _ in range(data.draw(st.integers(1, 6))):
        rows = torch.tensor(sorted(data.draw(st.sets(st.integers(0, n_sentences - 1)))))
        rows = rows.long()
        n = data.draw(st.integers(0, 5))
        tokens, given_tokens = draw_tokens(data, len(rows), n), draw_tokens(data, len(rows), n)
        counts, n_given = (
            torch.tensor([data.draw(st.integers(0, n)) for _ in rows], dtype=torch.long)
            for _ in range(2)
        )
        remembers = data.draw(st.booleans())
        for table in both:
            table.learn(rows, tokens, counts, remembers)
        ours, theirs = (table.guess(rows, given_tokens, n_given) for table in both)
        assert all(torch.equal(own, other) for own, other in zip(ours, theirs))


@compiled
def test_a_table_that_grows_forgets_nothing(monkeypatch):
    monkeypatch.setattr(ngrams, "LEAST_SIZE", 4)
    table = NgramTable.of(2, 10_000, EOS)
    table.open(torch.tensor([[10]]), torch.tensor([0]))
    first = torch.tensor([0])
    tokens = torch.arange(11, 1500)
    for part in tokens.split(7):
        table.learn(first, part[None], torch.tensor([len(part)]))
    table.open(torch.tensor([[10]]), torch.tensor([0]))
    guesses, sizes = table.guess(first, torch.zeros(1, len(tokens)).long(), torch.tensor([0]))
    assert torch.equal(guesses[0], tokens)
    assert sizes.eq(1).all()


@compiled
def test_memory_is_bounded():
    table = NgramTable.of(3, 50, EOS)
    table.open(torch.tensor([[-1, -1]]), torch.tensor([0]))
    for first in range(10, 2000, 5):
        table.learn(torch.tensor([0]), torch.arange(first, first + 5)[None], torch.tensor([5]))
        task = table._task
        assert task.young.used <= 50 and task.old.used <= 50 + 10
        assert task.young.size == task.old.size or not task.old.size


@compiled
@pytest.mark.parametrize(
    "sentences, tokens, counts, error",
    [
        ([1], [[5, 6]], [2], IndexError),
        ([-1], [[5, 6]], [2], IndexError),
        ([0], [[5, 6]], [3], ValueError),
        ([0], [[5, 6]], [-1], ValueError),
        ([0, 0], [[5, 6]], [1], ValueError),
    ],
)
def test_refused_calls(sentences, tokens, counts, error):
    table = NgramTable.of(3, 50, EOS)
    table.open(torch.tensor([[7, 8]]), torch.tensor([0]))
    arguments = [torch.tensor(part) for part in (sentences, tokens, counts)]
    for call in (table.learn, table.guess):
        with pytest.raises(error):
            call(*arguments)


@compiled
@pytest.mark.parametrize("order", [1, 65])
def test_refused_orders(order):
    table = NgramTable.of(order, 50, EOS)
    table.open(torch.zeros(1, order - 1).long(), torch.tensor([0]))
    with pytest.raises(ValueError, match="sizes"):
        table.learn(torch.tensor([0]), torch.tensor([[5]]), torch.tensor([1]))
