"""Shortlists: which types a batch may use, and logits that are those of the whole vocabulary."""

import math
import os

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from fairseq_fastdec.data.special_tokens import EOD, add_end_of_decoding
from fairseq_fastdec.engine import DecoderSession, EnsembleSession, Shortlist
from fairseq_fastdec.engine.products.int8 import Int8Linear, Int8Rows
from tests.support import tiny
from tests.support.full_forward import random_targets
from tests.support.lexical_tables import write_table

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
    return Shortlist.load(path, TASK.source_dictionary, TASK.target_dictionary, first=2, best=2)


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


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    lines=st.lists(
        st.tuples(WORDS, WORDS, st.floats(0, 1)), max_size=15, unique_by=lambda line: line[:2]
    ),
    sources=st.lists(st.lists(st.integers(0, 23), min_size=1, max_size=6), max_size=4),
    first=st.integers(0, 5),
    best=st.integers(1, 4),
    joined=st.booleans(),
    double=st.booleans(),
)
def test_the_union_is_that_of_sets(tmp_path, lines, sources, first, best, joined, double):
    source, target = tiny.dictionary(20), tiny.dictionary(20 if joined else 30)
    if double:
        add_end_of_decoding(target)
    # Which of equally probable targets stay is nobody's business.
    lines = [(*line[:2], line[2] + number) for number, line in enumerate(lines)]
    lines.append(("w1", "w2", 99))  # tables without a known word are refused
    path = write_table(tmp_path / "lex.s2t", lines)
    shortlist = Shortlist.load(path, source, target, first, best)
    types = shortlist.union([shortlist.allow(torch.tensor(s).numpy()) for s in sources])
    assert types.tolist() == types_by_hand(lines, sources, source, target, first, best)


def test_words_that_are_in_no_dictionary_are_counted(tmp_path, caplog):
    lines = [("w1", "w2", 0.5), ("other", "w2", 0.3), ("w1", "NULL", 0.1), ("w3", "w2", 1)]
    path = write_table(tmp_path / "lex.s2t", lines)
    with caplog.at_level("DEBUG"):
        Shortlist.load(path, SEPARATE.source_dictionary, SEPARATE.target_dictionary)
    assert "2 targets of 1 of 24 source types; skipped 2 lines" in caplog.text


@pytest.mark.parametrize(
    "line", ["w1 w2", "w1 w2 0.5 0.5", "w1 w2 much", "w1 w2 nan", "w1 w2 -1", "", "0.5 w1 w2"]
)
def test_other_lines(tmp_path, line):
    path = tmp_path / "lex.s2t"
    path.write_text(f"w1 w2 0.5\n{line}\n")
    with pytest.raises(ValueError, match=r"--shortlist .*lex.s2t, line 2: not 'target source"):
        Shortlist.load(str(path), SEPARATE.source_dictionary, SEPARATE.target_dictionary)


def test_no_file(tmp_path):
    path = tmp_path / "lex.s2t"
    with pytest.raises(ValueError, match="--shortlist .*No such file.*scripts/build_shortlist.py"):
        Shortlist.load(str(path), SEPARATE.source_dictionary, SEPARATE.target_dictionary)


def load(path):
    return Shortlist.load(str(path), SEPARATE.source_dictionary, SEPARATE.target_dictionary)


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
    word = torch.tensor([source.index("w5")]).numpy()
    for target_word in ("w7", "w8"):
        path = write_table(tmp_path / "lex.s2t", [(target_word, "w5", 1)])
        loaded = Shortlist.load(path, source, target)
        assert loaded.allow(word).tolist() == [target.index(target_word)]


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("counterfeit", [False, True])
def test_int8_outputs_do_not_depend_on_the_others(monkeypatch, with_bias, counterfeit):
    """Also where torch has no products of integers."""
    if counterfeit:
        monkeypatch.setattr("fairseq_fastdec.engine.products.int8.fewer_bits", lambda: None)
    weight, x = torch.randn(40, 64), torch.randn(5, 64)
    bias = torch.randn(40) if with_bias else None
    outputs = torch.tensor([0, 3, 4, 17, 39])
    some = Int8Rows(weight, bias).take(outputs)(x)
    torch.testing.assert_close(some, Int8Linear(weight, bias)(x)[:, outputs], atol=1e-5, rtol=1e-6)


class Twins:
    """Two sessions of the same model, one of them with a shortlist, that do the same."""

    def __init__(self, model, shortlist, precision, tolerance):
        self.shortlist, self.tolerance = shortlist, tolerance
        self.sessions = [DecoderSession(model, precision, shortlist=s) for s in (None, shortlist)]
        for session in self.sessions:
            session.reset(64)
        self.types = [0]
        self.alive = []  # of each row, the types of its source
        self.n_paused = 0

    def add(self, lengths, left_pad, seed):
        batch = tiny.random_batch(TASK, lengths, left_pad, seed)
        for session in self.sessions:
            session.add(batch["net_input"])
        source = batch["net_input"]["src_tokens"].numpy()
        self.alive += [self.shortlist.allow(tokens) for tokens in source]
        self.types = self.shortlist.union(self.alive).tolist()

    def step(self, n_new, kept, seed):
        n_rows = self.sessions[0].n_rows
        tokens = random_targets(TASK, n_rows, n_new, seed)
        full, short = (session.project(session.step(tokens)) for session in self.sessions)
        for session in self.sessions:
            session.commit(torch.tensor(kept))
        assert short.size(-1) == len(self.types)
        spread = self.sessions[1].spread(short)
        masked = torch.full_like(full, -math.inf)
        masked[..., self.types] = full[..., self.types]
        torch.testing.assert_close(spread, masked, atol=self.tolerance, rtol=0)

    def select(self, rows):
        for session in self.sessions:
            session.select(torch.tensor(rows))
        going_on = [self.alive[self.n_paused + row] for row in rows]
        self.alive = self.alive[: self.n_paused] + going_on

    def pause(self, n):
        self.n_paused = min(n, len(self.alive))
        for session in self.sessions:
            session.pause(self.n_paused)


@pytest.mark.parametrize("precision", [*PRECISIONS, "fp64"])
def test_logits_are_those_of_the_whole_vocabulary(precision, shortlist):
    """For sources that come and go, whatever becomes of their rows."""
    dtype = torch.float64 if precision == "fp64" else torch.float32
    name = "model" if precision == "fp64" else precision
    model = tiny.stir(tiny.build_model(TASK, dtype=dtype, share_decoder_input_output_embed=True))
    tolerance = PRECISIONS.get(precision, 1e-12)

    @settings(max_examples=15, deadline=None)
    @given(st.data())
    def check(data):
        twins = Twins(model, shortlist, name, tolerance)
        for seed in range(10):
            n_rows = twins.sessions[0].n_rows
            action = data.draw(st.sampled_from(["add", "step", "step", "select", "pause"]))
            if action == "pause":
                twins.pause(data.draw(st.integers(0, 4)))
            elif (action == "add" and n_rows < 8) or n_rows == 0:
                lengths = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=3))
                twins.add(lengths, data.draw(st.booleans()), seed)
            elif action == "select":
                rows = st.lists(st.integers(0, n_rows - 1), min_size=1, max_size=6)
                twins.select(data.draw(rows))
            else:
                n_new = data.draw(st.integers(1, 3))
                kept = [data.draw(st.integers(0, n_new)) for _ in range(n_rows)]
                twins.step(n_new, kept, seed)

    check()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_vocabulary_with_a_bias(precision, shortlist):
    model = tiny.stir(tiny.build_model(TASK))
    weight = model.decoder.output_projection.weight
    model.decoder.output_projection = nn.Linear(weight.size(1), weight.size(0))
    twins = Twins(model, shortlist, precision, PRECISIONS[precision])
    twins.add([4, 6], True, seed=1)
    twins.step(3, [2, 1], seed=2)


def test_a_stream_forgets_the_types_of_sources_that_left(shortlist):
    twins = Twins(tiny.build_model(TASK), shortlist, "model", 1e-5)
    twins.add([9, 9, 9], True, seed=1)
    n_types = len(twins.types)
    twins.select([1])
    twins.add([1], True, seed=2)
    assert len(twins.types) < n_types - 10
    twins.step(2, [1, 2], seed=3)


def test_prepared_weights_follow_the_model(shortlist):
    model = tiny.stir(tiny.build_model(TASK))
    twins = Twins(model, shortlist, "int8", PRECISIONS["int8"])
    twins.add([4], True, seed=1)
    twins.step(1, [1], seed=1)
    tiny.train(model, TASK, updates=1)
    for session in twins.sessions:
        session.reset(64)
    twins.alive = []
    twins.add([4], True, seed=1)
    twins.step(1, [1], seed=1)


@pytest.mark.parametrize("n_members", [1, 2])
def test_probabilities_are_normalised_over_the_shortlist(n_members, shortlist):
    models = [tiny.stir(tiny.build_model(TASK, seed=seed)) for seed in range(n_members)]
    batch, tokens = tiny.random_batch(TASK, [4, 6]), random_targets(TASK, 2, 3)
    full, short = (EnsembleSession(models, temperature=0.7, shortlist=s) for s in (None, shortlist))
    scores = []
    for session in (full, short):
        session.reset(20)
        session.add(batch["net_input"])
        features = session.step(tokens)
        scores.append((session.log_probs(features), session.ranking_scores(features)))
    (all_types, _), (log_probs, ranking) = scores
    chosen = torch.isfinite(log_probs)
    assert chosen.eq(chosen[0, 0, 0]).all() and 4 < chosen[0, 0, 0].sum() < 40
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(2, 3, 1))
    assert torch.equal(ranking.argmax(-1), log_probs.argmax(-1))
    if n_members == 1:
        expected = all_types.masked_fill(~chosen, -math.inf).log_softmax(-1)
        torch.testing.assert_close(log_probs, expected, atol=1e-5, rtol=0)


def test_forced_tokens_are_possible(shortlist):
    session = DecoderSession(tiny.build_model(TASK), shortlist=shortlist)
    batch = tiny.random_batch(TASK, [1, 2])
    types = []
    for forced in (None, torch.tensor([[50, 51], [52, 1]])):
        session.reset(20)
        session.add(batch["net_input"], forced)
        types.append(set(session.network.output.types.tolist()))
    assert types[1] == types[0] | {50, 51, 52}


def test_models_that_the_engine_cannot_run(shortlist):
    lstm = tiny.build_model(TASK, "lstm", criterion="cross_entropy")
    with pytest.raises(ValueError, match="^--shortlist: .*LSTMDecoder.*; remove it"):
        EnsembleSession([tiny.build_model(TASK), lstm], shortlist=shortlist)


def test_before_the_first_sentence(shortlist):
    session = DecoderSession(tiny.build_model(TASK), shortlist=shortlist)
    session.reset(20)
    assert session.network.output.types.numel() == 0
    with pytest.raises(RuntimeError, match="--shortlist: no sentence has been added yet"):
        session.project(torch.zeros(1, 1, 32))


def test_a_batch_that_is_refused_leaves_the_others_as_they_are(shortlist):
    twins = Twins(tiny.stir(tiny.build_model(TASK)), shortlist, "model", 1e-5)
    twins.add([4, 6], True, seed=1)
    wrong = tiny.random_batch(TASK, [3, 2], seed=2)["net_input"]
    with pytest.raises(IndexError, match="--shortlist: target types"):
        twins.sessions[1].add(wrong, torch.full((2, 1), len(TASK.target_dictionary)))
    twins.step(2, [1, 2], seed=2)
    twins.select([1])
    twins.step(1, [1], seed=3)
