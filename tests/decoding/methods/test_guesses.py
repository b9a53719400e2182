"""What each kind of guess is, row by row."""

import types

import torch

from fairseq_fastdec.decoding.methods import guesses
from fairseq_fastdec.decoding.methods.guesses import NgramPool, guesses_of
from fairseq_fastdec.decoding.options import DecodingOptions
from fairseq_fastdec.decoding.request import Sources
from fairseq_fastdec.orders.special_tokens import EOD
from tests.support import tiny
from tests.support.trained_models import TASK

WORDS = TASK.target_dictionary
PAD, EOS = WORDS.pad(), WORDS.eos()


class KnownBatch:
    """Outputs that are written down."""

    def __init__(self, outputs, sources=None):
        self.outputs = outputs
        self.sentence = torch.arange(len(outputs))
        self.lengths = torch.tensor([len(own) for own in outputs])
        self.request = types.SimpleNamespace(sources=sources)

    def tail(self, n, filler):
        padded = [[filler] * n + own for own in self.outputs]
        return torch.tensor([own[len(own) - n :] for own in padded]).view(len(padded), n)


def guess(name, source=WORDS, replaces_answers=False, **options):
    options = DecodingOptions(decoding="lookahead", guess=name, **options)
    found, _ = guesses_of(options, source, WORDS, EOS, replaces_answers)
    return found


def filled(source, batch, kept, n_kept, certain=None):
    certain = None if certain is None else torch.tensor(certain)
    return source.fill(batch, torch.tensor(kept), torch.tensor(n_kept), certain).tolist()


def test_padding():
    batch = KnownBatch([[5, 6]])
    assert filled(guess("pad"), batch, [[8, PAD, PAD]], [1]) == [[8, PAD, PAD]]


def test_the_last_tokens_again():
    batch, source = KnownBatch([[5, 6, 7], [9]]), guess("previous")
    kept = [[8, PAD], [PAD, PAD]]
    assert filled(source, batch, kept, [1, 0]) == [[8, 7], [PAD, 9]]
    assert filled(source, batch, kept, [1, 0], certain=[4, 4]) == [[8, 4], [9, 4]]


def test_the_source_at_the_same_place():
    sample = tiny.random_batch(TASK, [3, 1])
    sources = Sources.of(sample, PAD)
    batch, source = KnownBatch([[5], []], sources), guess("copy")
    source.begin(batch)
    own = [[token for token in row if token != PAD] for row in sources.content.tolist()]
    empty = [[PAD] * 5] * 2
    assert filled(source, batch, empty, [0, 0]) == [
        (own[0][1:] + [PAD] * 5)[:5], (own[1] + [PAD] * 5)[:5],
    ]  # fmt: skip
    assert filled(source, batch, empty, [0, 0], certain=[7, 7])[0] == (own[0][2:] + [PAD] * 5)[:5]


def test_ngrams_of_the_output():
    batch, source = KnownBatch([[], []]), guess("ngram", ngram_pool="sentence", ngram_order=3)
    source.begin(batch)
    tokens = torch.tensor([[5, 6, 7, 5, 6], [8, EOS, 9, 9, 9]])
    source.learn(batch, tokens, torch.tensor([5, 5]))
    kept = [[PAD, PAD, PAD], [PAD, PAD, PAD]]
    # After 5 6 came 7. Nothing is known behind EOS.
    assert filled(source, batch, kept, [0, 0])[0] == [7, 5, 6]
    # Answers stay, and look-ups go on behind them.
    assert filled(source, batch, [[6, PAD, PAD]] * 2, [1, 1])[0] == [6, 7, 5]


def test_ngrams_replace_answers_where_they_are_known():
    batch = KnownBatch([[]])
    source = guess("ngram", replaces_answers=True, ngram_pool="sentence")
    source.begin(batch)
    source.learn(batch, torch.tensor([[5, 6, 7, 5, 6]]), torch.tensor([5]))
    assert filled(source, batch, [[9, 9, 9, 9]], [4]) == [[7, 5, 6, 7]]


def test_ngrams_of_the_run():
    batch, source = KnownBatch([[]]), guess("ngram")
    source.begin(batch)
    source.learn(batch, torch.tensor([[5, 6, 7]]), torch.tensor([3]))
    source.begin(KnownBatch([[]]))
    # The beginning of an output, and what follows.
    assert filled(source, batch, [[PAD, PAD, PAD]], [0]) == [[5, 6, 7]]


def test_ngrams_of_the_source():
    sample = tiny.random_batch(TASK, [4], seed=1)
    sources = Sources.of(sample, PAD)
    words = sources.content[0].tolist()
    assert len(set(words)) == 5
    batch, source = KnownBatch([[words[1]]], sources), guess("source")
    source.begin(batch)
    assert filled(source, batch, [[PAD] * 3], [0]) == [words[2:5]]
    # Outputs are not remembered.
    source.learn(batch, torch.tensor([[words[0]]]), torch.tensor([1]))
    assert filled(source, batch, [[PAD] * 2], [0]) == [words[1:3]]


def test_symbols_that_the_target_lacks_are_padding():
    source = tiny.dictionary(2)
    source.add_symbol("odd")
    content = torch.tensor([[source.index("odd"), source.index("w1")]])
    sources = Sources.of({"net_input": {"src_tokens": content}}, PAD)
    found = guesses.sources_as_targets(KnownBatch([[]], sources), source, WORDS)
    assert found.tolist() == [[PAD, WORDS.index("w1")]] and EOD not in WORDS


def test_a_pool_forgets_what_is_old(monkeypatch):
    monkeypatch.setattr(guesses, "POOL_SIZE", 2)
    pool = NgramPool()
    for number in range(7):
        pool.put((number,), number)
    assert pool.get((6,)) == 6 and pool.get((0,)) is None
