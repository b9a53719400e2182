"""Batches with folded targets beside the natural ones."""

import numpy as np
import torch
from fairseq.data import LanguagePairDataset

from fairseq_fastdec.orders.reordered_dataset import FOLDED, ReorderedDataset
from fairseq_fastdec.orders.special_tokens import EOD, add_end_of_decoding
from fairseq_fastdec.orders.token_order import TokenOrder
from tests.support import tiny

WORDS = tiny.dictionary(20)
add_end_of_decoding(WORDS)
END = WORDS.index(EOD)
BOS, PAD, EOS = WORDS.bos(), WORDS.pad(), WORDS.eos()
TARGETS = [[5, 6, 7, EOS], [8, 9, EOS], [EOS]]


def dataset(order, targets=TARGETS, **options):
    targets = [torch.tensor(target) for target in targets]
    sizes = [len(target) for target in targets]
    pairs = LanguagePairDataset(
        [torch.tensor([4, 4, 4, EOS]) for _ in targets], [4] * len(targets), WORDS,
        targets, sizes, WORDS, shuffle=False, **options,
    )  # fmt: skip
    return ReorderedDataset(pairs, order, WORDS)


def collated(reordered):
    batch = reordered.collater([reordered[index] for index in range(len(reordered))])
    return batch["target"], batch[FOLDED], batch["net_input"]["prev_output_tokens"], batch


def test_two_tokens_a_step():
    target, folded, previous, batch = collated(dataset(TokenOrder("bidirectional", 2)))
    assert target.tolist() == [[5, 6, 7, EOS], [8, 9, EOS, PAD], [EOS, PAD, PAD, PAD]]
    assert folded.tolist() == [[5, 7, 6, END], [8, 9, END, END], [END, END, PAD, PAD]]
    assert previous.tolist() == [[BOS, EOS, 5, 7], [BOS, EOS, 8, 9], [BOS, EOS, PAD, PAD]]
    assert batch["ntokens"] == 10


def test_one_token_a_step():
    target, folded, previous, batch = collated(dataset(TokenOrder("r2l", 1)))
    assert target.tolist() == [[5, 6, 7, EOS], [8, 9, EOS, PAD], [EOS, PAD, PAD, PAD]]
    assert folded.tolist() == [[7, 6, 5, EOS], [9, 8, EOS, PAD], [EOS, PAD, PAD, PAD]]
    assert previous.tolist() == [[EOS, 7, 6, 5], [EOS, 9, 8, PAD], [EOS, PAD, PAD, PAD]]
    assert batch["ntokens"] == 8


def test_from_left_to_right_it_is_fairseqs_batch():
    target, folded, previous, batch = collated(dataset(TokenOrder("l2r", 1)))
    plain = dataset(TokenOrder("l2r", 1)).dataset
    expected = plain.collater([plain[index] for index in range(3)])
    assert torch.equal(folded, expected["target"]) and torch.equal(target, expected["target"])
    assert torch.equal(previous, expected["net_input"]["prev_output_tokens"])
    assert batch["ntokens"] == expected["ntokens"]


def test_sizes_are_those_of_the_folded_targets():
    """--max-tokens and the limit of the model's positions go by them."""
    reordered = dataset(TokenOrder("bidirectional", 2), [[5] * 5 + [EOS], [5] * 6 + [EOS]])
    assert [reordered.size(index)[1] for index in range(2)] == [6, 8]
    assert [reordered.num_tokens(index) for index in range(2)] == [6, 8]
    kept, dropped = reordered.filter_indices_by_size(np.arange(2), (100, 7))
    assert list(kept) == [0] and list(dropped) == [1]


def test_targets_that_do_not_end_in_eos():
    _, folded, _, _ = collated(dataset(TokenOrder("bidirectional", 2), [[5, 6, 7], [5, 6]]))
    assert folded.tolist() == [[5, 7, 6, END], [5, 6, END, END]]


def test_padding_to_a_multiple():
    reordered = dataset(TokenOrder("bidirectional", 2), pad_to_multiple=8)
    _, folded, previous, _ = collated(reordered)
    assert folded.shape == previous.shape == (3, 8)


def test_no_targets():
    plain = LanguagePairDataset([torch.tensor([4, EOS])], [2], WORDS, tgt_dict=WORDS)
    reordered = ReorderedDataset(plain, TokenOrder("bidirectional", 2), WORDS)
    assert FOLDED not in reordered.collater([reordered[0]])
