"""The row table against a list of rows."""

from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.engine.session.row_table import RowTable

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Row:
    source: int  # a name that nobody else gets
    source_length: int
    length: int = 0


class Model:
    """What the table says, in plain Python. A source is known by its name, not by its number."""

    def __init__(self):
        self.rows = []
        self.n_paused = 0
        self.n_sources_ever = 0

    @property
    def going_on(self):
        return self.rows[self.n_paused :]

    def add(self, source_lengths):
        for length in source_lengths:
            self.rows.append(Row(self.n_sources_ever, length))
            self.n_sources_ever += 1

    def commit(self, counts):
        self.set(replace(row, length=row.length + n) for row, n in zip(self.going_on, counts))

    def select(self, rows):
        self.set([self.going_on[row] for row in rows])

    def set(self, going_on):
        self.rows[self.n_paused :] = list(going_on)


class Names:
    """The name of each of the table's sources, from what the table's calls returned."""

    def __init__(self):
        self.known = []
        self.n_ever = 0

    def add(self, n):
        self.known += range(self.n_ever, self.n_ever + n)
        self.n_ever += n

    def keep(self, order):
        if order is not None:
            self.known = [self.known[source] for source in order.tolist()]


def check_same(table, model, names):
    going_on, paused = model.going_on, model.rows[: model.n_paused]
    lengths = [row.length for row in going_on]
    assert (table.n_rows, table.n_paused, table.n_slots) == (
        len(going_on),
        len(paused),
        len(model.rows),
    )
    assert table.lengths.tolist() == lengths
    assert table.lengths_of_slots.tolist() == [row.length for row in model.rows]
    assert (table.shortest, table.longest) == (min(lengths, default=0), max(lengths, default=0))
    assert table.longest_paused == max((row.length for row in paused), default=0)
    assert [names.known[source] for source in table.row_source.tolist()] == [
        row.source for row in going_on
    ]
    assert [names.known[source] for source in table.source_of_slots.tolist()] == [
        row.source for row in model.rows
    ]
    length_of = {row.source: row.source_length for row in model.rows}
    assert sorted(names.known) == sorted(length_of), "sources leave with their last row"
    assert table.source_lengths.tolist() == [length_of[name] for name in names.known]
    assert table.n_sources == len(length_of)
    assert table.longest_source == max(length_of.values(), default=0)
    tensors = (table.lengths, table.row_source, table.source_lengths, table.lengths_of_slots)
    assert all(tensor.dtype == torch.long for tensor in tensors)


def act(table, model, names, draw):
    """One drawn operation on both."""
    n_rows, n_slots = len(model.going_on), len(model.rows)
    action = draw(st.sampled_from(["add", "commit", "commit one number", "select", "pause"]))
    if action == "add" and n_slots < 12:
        lengths = draw(st.lists(st.integers(0, 9), max_size=4))
        table.add(torch.tensor(lengths, dtype=torch.long))
        model.add(lengths)
        names.add(len(lengths))
    elif action == "commit":
        counts = draw(st.lists(st.integers(0, 3), min_size=n_rows, max_size=n_rows))
        table.commit(torch.tensor(counts, dtype=torch.long))
        model.commit(counts)
    elif action == "commit one number":
        n = draw(st.integers(0, 3))
        table.commit(n)
        model.commit([n] * n_rows)
    elif action == "select":
        rows = draw(st.lists(st.sampled_from(range(n_rows)), max_size=6)) if n_rows else []
        names.keep(table.select(torch.tensor(rows, dtype=torch.long)))
        model.select(rows)
    elif action == "pause":
        n = draw(st.integers(0, n_slots))
        table.pause(n)
        model.n_paused = n


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_operations(data):
    table = RowTable(CPU)
    for _ in range(data.draw(st.integers(1, 2))):
        table.clear(CPU)
        model, names = Model(), Names()
        for _ in range(data.draw(st.integers(0, 15))):
            before = grouping(table)
            act(table, model, names, data.draw)
            check_same(table, model, names)
            assert grouping(table)[0] != before[0] or grouping(table) == before


def grouping(table):
    """The number, and what it says is the same as long as it stays."""
    sources = (table.row_source.tolist(), table.source_lengths.tolist(), table.n_paused)
    return (table.grouping, *sources)


def test_what_stays_the_same_is_not_grouped_anew():
    """Nothing is derived anew from it in a plain step, nor by rows that keep their sources."""
    table = RowTable(CPU)
    table.add(torch.tensor([4, 2]))
    before = table.grouping
    table.commit(1)
    table.commit(torch.tensor([1, 2]))
    table.pause(0)
    assert table.select(torch.tensor([0, 1])) is None
    assert table.grouping == before
    table.select(torch.tensor([1, 0]))
    assert table.grouping != before


@pytest.mark.parametrize("n", [-1, 3])
def test_more_rows_than_there_are_cannot_rest(n):
    table = RowTable(CPU)
    table.add(torch.tensor([4, 2]))
    with pytest.raises(ValueError, match=rf"pause\({n}\): the session has 2 rows"):
        table.pause(n)
    assert (table.n_rows, table.n_paused) == (2, 0)
