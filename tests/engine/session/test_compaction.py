"""Orders of rows: nobody is lost, and few rows move."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairseq_fastdec.engine import compaction, inheritance


@given(st.lists(st.booleans(), min_size=1, max_size=20))
def test_compaction_keeps_the_kept_and_moves_few(keep):
    order = compaction(torch.tensor(keep)).tolist()
    kept = [index for index, flag in enumerate(keep) if flag]
    assert sorted(order) == kept
    stay = [index for index in kept if index < len(kept)]
    assert all(order[index] == index for index in stay)


@given(st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n - 1)))))
def test_heirs_stay_where_their_parents_were(case):
    n_rows, parents = case
    order = inheritance(np.array(parents, dtype=np.int64), n_rows).tolist()
    assert sorted(order) == list(range(len(parents))), "every child has one row"
    for parent in set(parents):
        if parent < len(parents):
            assert order[parent] == parents.index(parent)
