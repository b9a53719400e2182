"""The file of a lexical table, and what is kept in it."""

import numpy as np
from fairseq.data import Dictionary
from hypothesis import given
from hypothesis import strategies as st

from fairseq_fastdec.tools.shortlisting import model1
from fairseq_fastdec.tools.shortlisting.table import pruned, write


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
