"""IBM Model 1 against its textbook form with dictionaries, and on a corpus that people can read."""

import math
from collections import defaultdict

import numpy as np
import pytest
from fairseq.data import Dictionary
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.tools.shortlisting import model1
from fairseq_fastdec.tools.shortlisting.model1 import pruned, write
from fairseq_fastdec.tools.shortlisting.sentences import FlatSentences, read

N_SOURCE, N_TARGET = 6, 5
PAIRS = st.lists(
    st.tuples(
        st.lists(st.integers(0, N_SOURCE - 1), max_size=5),
        st.lists(st.integers(0, N_TARGET - 1), max_size=5),
    ),
    max_size=8,
)


def flat(sentences):
    tokens = [token for sentence in sentences for token in sentence]
    offsets = np.cumsum([0, *(len(sentence) for sentence in sentences)])
    return FlatSentences(np.array(tokens, dtype=np.int32), offsets)


def trained(pairs, iterations, n_source=N_SOURCE, n_target=N_TARGET):
    sides = [flat(side) for side in zip(*pairs)] if pairs else [flat([]), flat([])]
    perplexities = []
    translations = model1.train(
        *sides,
        n_source,
        n_target,
        iterations,
        lambda _, perplexity: perplexities.append(perplexity),
    )
    return translations, perplexities


def by_hand(pairs, iterations):
    """``{(source, target): probability}`` and the perplexity before each iteration."""
    t = defaultdict(lambda: 1 / N_TARGET)
    perplexities = []
    for _ in range(iterations):
        counts, totals, likelihood, n_tokens = defaultdict(float), defaultdict(float), 0.0, 0
        for source, target in pairs:
            source = [N_SOURCE, *source]
            for word in target:
                total = sum(t[other, word] for other in source)
                likelihood += math.log(total / len(source))
                n_tokens += 1
                for other in source:
                    counts[other, word] += t[other, word] / total
                    totals[other] += t[other, word] / total
        t = {pair: count / totals[pair[0]] for pair, count in counts.items()}
        perplexities.append(math.exp(-likelihood / max(n_tokens, 1)))
    return t, perplexities


@pytest.mark.parametrize("cells_at_once", [1, 7, 1 << 21])
def test_expectation_and_maximisation(cells_at_once, monkeypatch):
    """Whatever the sentence pairs, also empty ones, and however few are looked at in one go."""
    monkeypatch.setattr(model1, "CELLS_AT_ONCE", cells_at_once)

    @settings(max_examples=60)
    @given(pairs=PAIRS, iterations=st.integers(1, 4))
    def check(pairs, iterations):
        translations, perplexities = trained(pairs, iterations)
        expected, expected_perplexities = by_hand(pairs, iterations)
        pair_of = list(zip(translations.sources.tolist(), translations.targets.tolist()))
        assert pair_of == sorted(expected)
        np.testing.assert_allclose(
            translations.probabilities, [expected[pair] for pair in pair_of], rtol=1e-9
        )
        np.testing.assert_allclose(perplexities, expected_perplexities, rtol=1e-9)

    check()


def test_the_house_the_book_a_book():
    """Nobody says which word is which, and yet there is one answer only."""
    the, house, book, a = range(4)
    das, haus, buch, ein = range(4)
    pairs = [([the, house], [das, haus]), ([the, book], [das, buch]), ([a, book], [ein, buch])]
    translations, perplexities = trained(pairs, 30, n_source=4, n_target=4)
    best = pruned(translations, n_source=4, threshold=0.5, best=1)
    assert best.sources.tolist() == [the, house, book, a]
    assert best.targets.tolist() == [das, haus, buch, ein]
    assert perplexities == sorted(perplexities, reverse=True)


def lists(sentences):
    borders = zip(sentences.offsets[:-1], sentences.offsets[1:])
    return [sentences.tokens[first:last].tolist() for first, last in borders]


@pytest.mark.parametrize(
    "n, chosen",
    [
        (None, range(600)), (600, range(600)), (999, range(600)), (1, [0]), (2, [0, 599]),
        (3, [0, 299, 599]),
    ],
)  # fmt: skip
def test_sentences_are_evenly_spread_over_the_corpus(corpus, n, chosen):
    """Sentences of letters, and each of them reversed."""
    words = Dictionary.load(str(corpus / "dict.en.txt"))
    texts = []
    for name in ("en", "de"):
        lines = (corpus.parent / f"train.{name}").read_text(encoding="utf-8").split("\n")
        texts.append([[words.index(word) for word in lines[i].split()] for i in chosen])
    sides = read(str(corpus), "train", ("en", "de"), (words, words), n)
    assert [lists(side) for side in sides] == texts


def test_a_chunk_holds_the_pairs_that_begin_in_its_cells(monkeypatch):
    """No chunk has more cells than it may, but for those of its last pair of sentences."""
    monkeypatch.setattr(model1, "CELLS_AT_ONCE", 10)
    chunks = model1._ranges(np.array([4, 4, 4, 0, 9, 1, 1]))
    assert list(chunks) == [(0, 3), (3, 5), (5, 7)]


@given(
    entries=st.dictionaries(
        st.tuples(st.integers(0, 5), st.integers(0, 9)), st.floats(0, 1), max_size=30
    ),
    threshold=st.floats(0, 1),
    best=st.integers(1, 4),
)
def test_what_is_kept(entries, threshold, best):
    """Above the threshold, of the most probable, and nothing of NULL (here: 5)."""
    keys = sorted(entries)
    table = pruned(
        model1.Translations(
            np.array([key[0] for key in keys], dtype=np.int64),
            np.array([key[1] for key in keys], dtype=np.int64),
            np.array([entries[key] for key in keys]),
        ),
        n_source=5,
        threshold=threshold,
        best=best,
    )
    expected = []
    for source in range(5):
        own = [(-p, target) for (s, target), p in entries.items() if s == source and p >= threshold]
        expected += [(source, target, -p) for p, target in sorted(own)[:best]]
    assert list(zip(*(column.tolist() for column in table))) == expected


def test_the_file(tmp_path):
    dictionary = Dictionary()
    haus, house = (dictionary.add_symbol(word) for word in ("Haus", "house"))
    translations = model1.Translations(
        np.array([house, house]), np.array([haus, house]), np.array([0.75, 1 / 3])
    )
    write(tmp_path / "lex.s2t", translations, dictionary, dictionary)
    content = (tmp_path / "lex.s2t").read_text(encoding="utf-8")
    assert content == "Haus house 0.75\nhouse house 0.333333\n"
