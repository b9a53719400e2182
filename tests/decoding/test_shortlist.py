"""Shortlists: which types a batch may use, and logits that are those of the whole vocabulary."""

import os

import numpy as np
import pytest
from fairseq.data import Dictionary
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairseq_fastdec.decoding import shortlist as shortlists
from fairseq_fastdec.orders.special_tokens import EOD, add_end_of_decoding
from tests.support import tiny
from tests.support.lexical_tables import write_table
from tests.support.marian_writing import write_shortlist

TASK = tiny.task(60)
SEPARATE = tiny.task(20, target_words=30)
PRECISIONS = {"model": 1e-5, "fp32": 1e-5, "bf16": 1e-2, "int8": 1e-4}


def neighbours(n_words, n_targets=3):
    """Word w translates to the words behind it, the nearer the likelier."""
    return [
        (f"w{(word + step) % n_words}", f"w{word}", 0.5**step)
        for word in range(n_words)
        for step in range(1, n_targets + 1)
    ]


@pytest.fixture(scope="module")
def shortlist(tmp_path_factory):
    """Few types for each sentence of TASK."""
    path = write_table(tmp_path_factory.mktemp("table") / "lex.s2t", neighbours(60))
    return shortlists.load(path, TASK.source_dictionary, TASK.target_dictionary, first=2, best=2)


def types_by_hand(lines, sources, source, target, first, best):
    """The shortlist, word by word."""
    types = set(range(target.nspecial + first))
    types |= {target.index(EOD)} if EOD in target else set()
    for token in {token for tokens in sources for token in tokens}:
        own = [line for line in lines if line[1] == source[token] and line[0] in target.indices]
        own.sort(key=lambda line: -line[2])
        types |= {target.index(line[0]) for line in own[:best]}
        types |= {token} if source == target else set()
    return sorted(types)


WORDS = st.integers(0, 24).map(lambda number: f"w{number}")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(
        st.tuples(WORDS, WORDS, st.floats(0, 1)), max_size=15, unique_by=lambda line: line[:2]
    ),
    sources=st.lists(st.lists(st.integers(0, 23), min_size=1, max_size=6), min_size=1, max_size=4),
    first=st.integers(0, 5),
    best=st.integers(1, 4),
    joined=st.booleans(),
    double=st.booleans(),
)
def test_the_union_is_that_of_sets(tmp_path, lines, sources, first, best, joined, double):
    source, target = tiny.dictionary(20), tiny.dictionary(20 if joined else 30)
    if double:
        add_end_of_decoding(target)
    # Which of several equally probable targets are kept is not specified.
    lines = [(*line[:2], line[2] + number) for number, line in enumerate(lines)]
    lines.append(("w1", "w2", 99))  # tables without a known word are refused
    path = write_table(tmp_path / "lex.s2t", lines)
    shortlist = shortlists.load(path, source, target, first, best)
    types = [own for s in sources for own in shortlist.types_of(np.array([s]), None)]
    found = np.unique(np.concatenate(types)).tolist()
    assert found == types_by_hand(lines, sources, source, target, first, best)


def test_words_that_are_in_no_dictionary_are_counted(tmp_path, caplog):
    lines = [("w1", "w2", 0.5), ("other", "w2", 0.3), ("w1", "NULL", 0.1), ("w3", "w2", 1)]
    path = write_table(tmp_path / "lex.s2t", lines)
    with caplog.at_level("DEBUG"):
        shortlists.load(path, SEPARATE.source_dictionary, SEPARATE.target_dictionary)
    assert "2 targets of 1 of 24 source types; skipped 2 lines" in caplog.text


@pytest.mark.parametrize(
    "line", ["w1 w2", "w1 w2 0.5 0.5", "w1 w2 much", "w1 w2 nan", "w1 w2 -1", "", "0.5 w1 w2"]
)
def test_other_lines(tmp_path, line):
    path = tmp_path / "lex.s2t"
    path.write_text(f"w1 w2 0.5\n{line}\n")
    with pytest.raises(ValueError, match=r"--shortlist .*lex.s2t, line 2: not 'target source"):
        shortlists.load(str(path), SEPARATE.source_dictionary, SEPARATE.target_dictionary)


def test_no_file(tmp_path):
    path = tmp_path / "lex.s2t"
    with pytest.raises(ValueError, match="--shortlist .*No such file.*build-shortlist"):
        shortlists.load(str(path), SEPARATE.source_dictionary, SEPARATE.target_dictionary)


def load(path):
    return shortlists.load(str(path), SEPARATE.source_dictionary, SEPARATE.target_dictionary)


@pytest.mark.parametrize(
    "lines, counts",
    [
        ([], "0 of 0"),
        ([("w1", "NULL", 1), ("NULL", "w1", 1)], "0 of 0"),
        ([("w1", f"other{n}", 1) for n in range(40)], "0 of 40"),
        ([("w1", "w1", 1), *((f"other{n}", "w1", 1) for n in range(39))], "1 of 40"),
    ],
    ids=["empty", "NULL alone", "another vocabulary", "almost another vocabulary"],
)
def test_tables_of_other_words_are_refused(tmp_path, lines, counts):
    path = write_table(tmp_path / "lex.s2t", lines)
    message = f"--shortlist .*lex.s2t: {counts} lines .*; build one with .*from this model's data"
    with pytest.raises(ValueError, match=message):
        load(path)


def test_one_warning_of_many_unknown_words(tmp_path, caplog):
    """However often a generator is built."""
    known = [("w1", f"w{n}", 1) for n in range(20)] + [("w1", "NULL", 1)] * 9
    path = write_table(tmp_path / "few.s2t", [*known, ("w1", "other", 1)])
    load(path)
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    path = write_table(tmp_path / "many.s2t", [*known, *[("w1", "other", 1)] * 5])
    for _ in range(3):
        load(path)
    (warning,) = (record for record in caplog.records if record.levelname == "WARNING")
    assert "only 20 of 25 lines have both words in the dictionaries (80%)" in warning.getMessage()


@pytest.mark.parametrize("kind", ["device", "pipe"])
def test_files_without_an_end_are_not_read(tmp_path, kind):
    path = "/dev/zero"
    if kind == "pipe":
        path = str(tmp_path / "pipe")
        os.mkfifo(path)
    with pytest.raises(ValueError, match=f"--shortlist {path}: not a regular file; write"):
        load(path)


def test_directories(tmp_path):
    with pytest.raises(ValueError, match="--shortlist .*cannot be read .Is a directory"):
        load(tmp_path)


def test_files_without_lines_are_not_read_to_their_end(tmp_path):
    path = tmp_path / "model.bin"
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ValueError, match="--shortlist .*model.bin, line 1: not 'target source"):
        load(path)


def test_a_table_that_was_written_anew_is_read_anew(tmp_path):
    source, target = SEPARATE.source_dictionary, SEPARATE.target_dictionary
    word = np.array([[source.index("w5")]])
    for target_word in ("w7", "w8"):
        path = write_table(tmp_path / "lex.s2t", [(target_word, "w5", 1)])
        (types,) = shortlists.load(path, source, target, first=0).types_of(word, None)
        assert types.tolist() == [*range(target.nspecial), target.index(target_word)]


N_TYPES, FIRST = 30, 4
LISTS = [[(3 * word + step) % N_TYPES for step in range(word % 5)] for word in range(N_TYPES)]


def types_as_in_marian(source, is_shared):
    """The types of a sentence, one by one, as Marian finds them, by its numbers."""
    types = set(range(FIRST))
    for word in source:
        types |= {*LISTS[word], *([word] if is_shared else [])}
    for word in range(FIRST, N_TYPES):
        if len(types) % 8:
            types.add(word)
    return sorted(types)


@pytest.mark.parametrize("is_shared", [False, True])
def test_binary_files_of_marian(tmp_path, is_shared):
    """Marian's vocabularies have two symbols less at the beginning."""
    path = tmp_path / "lex.s2t.bin"
    write_shortlist(path, FIRST, LISTS)
    source = tiny.dictionary(N_TYPES - 2)
    target = source if is_shared else Dictionary()
    for number in range(0 if is_shared else N_TYPES - 2):
        target.add_symbol(f"t{number}")
    shortlist = shortlists.load(str(path), source, target)
    generator = np.random.default_rng(0)
    for length in (1, 2, 3, 5, 8, 20, 60):
        words = generator.integers(N_TYPES, size=length)
        padded = np.concatenate([[1, 1], words + 2])[None]
        (types,) = shortlist.types_of(padded, None)
        assert types.dtype == np.int64
        assert (types - 2).tolist() == types_as_in_marian(words.tolist(), is_shared)
    (more,) = shortlists.load(str(path), source, target, first=9).types_of(padded, None)
    assert {*range(2, 11)} <= {*more.tolist()}


def test_options_and_dictionaries_that_a_binary_file_does_not_fit(tmp_path):
    path = tmp_path / "lex.s2t.bin"
    write_shortlist(path, FIRST, LISTS)
    words = tiny.dictionary(N_TYPES - 2)
    with pytest.raises(ValueError, match="--shortlist-best 5: the file .* not their probabilities"):
        shortlists.load(str(path), words, words, best=5)
    other = tiny.dictionary(N_TYPES)
    with pytest.raises(ValueError, match="--shortlist .*is for 30 source types; .* has 32"):
        shortlists.load(str(path), other, other)
