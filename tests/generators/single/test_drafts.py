"""The drafts on their own."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

from fairseq_fastdec.generators import build_generator
from fairseq_fastdec.generators.options import DecodingOptions
from fairseq_fastdec.generators.single.drafts import (
    CopyDraft,
    NgramDraft,
    PadDraft,
    PreviousDraft,
    SourceDraft,
    draft_source,
)
from fairseq_fastdec.generators.sources import Sources
from tests.support import tiny
from tests.support.against_fairseq import assert_same

SOURCE, TARGET = tiny.dictionary(9), tiny.dictionary(6)
PAD, EOS = TARGET.pad(), TARGET.eos()
OWN = {name: TARGET.index(name) for name in ("w0", "w1", "w2", "w3")}


class DraftedBatch:
    """As much of a batch as drafts look at."""

    def __init__(self, sources, outputs):
        width = max(map(len, sources))
        src_tokens = torch.tensor([[PAD] * (width - len(row)) + row for row in sources])
        self.sources = Sources.of({"net_input": {"src_tokens": src_tokens}}, PAD)
        self.source_lengths = self.sources.lengths
        self.n_sentences = len(sources)
        self.sentence = torch.arange(len(sources))
        self.said = outputs

    @property
    def lengths(self):
        return torch.tensor([len(row) for row in self.said])

    def tail(self, n, before_first):
        rows = [([before_first] * n + row)[len(row) : len(row) + n] for row in self.said]
        return torch.tensor(rows)


def words(text):
    return [SOURCE.index(word) for word in text.split()]


def filled(source, rows, kept, n_kept):
    return source.fill(rows, torch.tensor(kept), torch.tensor(n_kept)).tolist()


def test_copies_of_the_source_under_the_targets_indices():
    """w7 and w8 are not in the target dictionary; padding may be on the left."""
    rows = DraftedBatch([words("w3 w7 w2 w1"), words("w0 w1")], [[OWN["w3"]], []])
    draft = CopyDraft(SOURCE, TARGET)
    draft.begin(rows)
    kept = [[4, PAD, PAD, PAD], [PAD] * 4]
    w = OWN
    assert filled(draft, rows, kept, [1, 0]) == [
        [4, w["w2"], w["w1"], PAD],
        [w["w0"], w["w1"], PAD, PAD],
    ]


def test_a_source_token_that_the_target_lacks_is_padding():
    rows = DraftedBatch([words("w3 w7 w2")], [[]])
    draft = CopyDraft(SOURCE, TARGET)
    draft.begin(rows)
    assert filled(draft, rows, [[4, 4, 4]], [0]) == [[OWN["w3"], PAD, OWN["w2"]]]


@pytest.mark.parametrize(
    "name, kind",
    [
        ("pad", PadDraft), ("copy", CopyDraft), ("previous", PreviousDraft),
        ("ngram", NgramDraft), ("source", SourceDraft),
    ],
)  # fmt: skip
def test_each_name_has_its_draft(name, kind):
    options = DecodingOptions(decoding="lookahead", draft=name)
    assert type(draft_source(options, SOURCE, TARGET, EOS, True)) is kind
    if name in ("copy", "source"):
        with pytest.raises(ValueError, match=f"--draft {name}: .* use another draft"):
            draft_source(options, None, TARGET, EOS, True)
    else:
        assert type(draft_source(options, None, TARGET, EOS, True)) is kind


def test_what_follows_in_the_source():
    rows = DraftedBatch([words("w0 w3 w0 w2"), words("w1 w2 w3")], [[OWN["w3"], OWN["w0"]], []])
    draft = SourceDraft(3, EOS, SOURCE, TARGET, replace_answers=True)
    draft.begin(rows)
    w = OWN
    # After "w3 w0" comes w2; after the beginning, the beginning; after the end nothing is known.
    assert filled(draft, rows, [[9, 9], [9, 9]], [0, 0]) == [[w["w2"], 9], [w["w1"], w["w2"]]]


def test_previous_tokens_once_more():
    rows = DraftedBatch([words("w0")] * 2, [[7, 8, 9], [5]])
    draft = draft_source(
        DecodingOptions(decoding="lookahead", draft="previous"), SOURCE, TARGET, EOS, True
    )
    assert filled(draft, rows, [[4, PAD], [PAD, PAD]], [1, 0]) == [[4, 9], [PAD, 5]]


def ngram_draft(pool, replace_answers):
    options = DecodingOptions(decoding="lookahead", ngram_order=3, ngram_pool=pool)
    return draft_source(options, SOURCE, TARGET, EOS, replace_answers)


@pytest.mark.parametrize("pool, second_row", [("run", [7, 8]), ("sentence", [9, 9])])
def test_ngrams_of_the_sentence_or_of_all(pool, second_row):
    rows = DraftedBatch([words("w0")] * 2, [[], []])
    draft = ngram_draft(pool, replace_answers=True)
    draft.begin(rows)
    draft.learn(rows, torch.tensor([[6, 7, 8, 6], [6, 9, 9, 9]]), torch.tensor([4, 1]))
    assert filled(draft, rows, [[9, 9], [9, 9]], [2, 2]) == [[7, 8], second_row]


def test_the_longest_ngram_decides():
    """After 6 7 came 8; after 7 alone, 9 came last."""
    rows = DraftedBatch([words("w0")], [[]])
    draft = ngram_draft("run", replace_answers=True)
    draft.begin(rows)
    draft.learn(rows, torch.tensor([[6, 7, 8, 5, 7, 9]]), torch.tensor([6]))
    for last, after in (([6, 7], 8), ([5, 7], 9), ([4, 7], 9)):
        rows.said = [last]
        draft.begin(rows)
        assert filled(draft, rows, [[0]], [1]) == [[after]]


def test_a_row_with_news_is_learned_from_beside_one_without():
    rows = DraftedBatch([words("w0")] * 2, [[4, 5], [6]])
    draft = ngram_draft("run", replace_answers=True)
    draft.begin(rows)
    draft.learn(rows, torch.tensor([[6, 7, 8], [9, 9, 9]]), torch.tensor([3, 0]))
    # What was there before is context, and no news.
    for last, after in (([4, 5], 6), ([5, 6], 7), ([6, 7], 8), ([3, 4], 0), ([5, 9], 0)):
        rows.said = [last, [6]]
        draft.begin(rows)
        assert filled(draft, rows, [[0], [0]], [1, 1])[0] == [after]


def test_ngrams_leave_answers_alone_where_they_must():
    rows = DraftedBatch([words("w0")], [[]])
    draft = ngram_draft("run", replace_answers=False)
    draft.begin(rows)
    draft.learn(rows, torch.tensor([[6, 7, 8, 6]]), torch.tensor([4]))
    assert filled(draft, rows, [[7, 5, 9]], [2]) == [[7, 5, 9]]
    assert filled(draft, rows, [[7, 9, 9]], [1]) == [[7, 8, 6]]


def test_dictionaries_that_differ():
    task = tiny.task(12, 7)
    model = tiny.stir(tiny.build_model(task))
    sample = tiny.random_batch(task, [4, 8, 1])
    for draft in ("copy", "source"):
        generator = build_generator(
            [model],
            task.target_dictionary,
            SimpleNamespace(beam=1, max_len_b=12),
            DecodingOptions(decoding="lookahead", draft=draft),
            source_dictionary=task.source_dictionary,
        )
        theirs = fairseq_reference(model, task, sample)
        assert_same(generator.generate([model], sample), theirs)


def fairseq_reference(model, task, sample):
    generator = SequenceGenerator([model], task.target_dictionary, beam_size=1, max_len_b=12)
    return generator.generate([model], sample)
