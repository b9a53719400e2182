"""Batches are those that fairseq makes."""

import functools
from argparse import Namespace

import pytest
import torch
from fairseq.data import Dictionary, LanguagePairDataset
from fairseq.tasks import FairseqTask

from fairseq_fastdec.checkpoints.batches import DirectBatches, batches_of, sources_as_batch

DATA = Namespace(max_tokens=16, batch_size=None, required_batch_size_multiple=1)
SIZES = [5, 1, 5, 3, 2, 7, 5, 4, 3]


@pytest.fixture(scope="module")
def dictionary():
    dictionary = Dictionary()
    for number in range(50):
        dictionary.add_symbol(str(number))
    return dictionary


def lines():
    draw = torch.Generator().manual_seed(1)
    tokens = [torch.randint(3, 50, (size,), generator=draw) for size in SIZES]
    tokens[2][1] = 1  # whoever writes <pad> has a padding within the sentence
    return tokens


def same(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        if torch.is_tensor(value):
            assert torch.equal(value, other[name]) and value.dtype == other[name].dtype
        elif isinstance(value, dict):
            same(value, other[name])
        else:
            assert value == other[name] and type(value) is type(other[name])


@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
@pytest.mark.parametrize("longer", [None, {"source": 9, "target": 3}], ids=["", "longer"])
def test_a_batch_is_as_fairseq_collates_it(dictionary, left, longer):
    dataset = LanguagePairDataset(lines(), SIZES, dictionary, left_pad_source=left)
    samples = [dataset[number] for number in (5, 0, 2, 8, 3, 6)]
    same(sources_as_batch(dataset, samples, longer), dataset.collater(samples, longer))
    assert sources_as_batch(dataset, []) == dataset.collater([]) == {}


class Task(FairseqTask):
    def __init__(self, build):
        super().__init__(None)
        self.build_dataset_for_inference = build

    @property
    def source_dictionary(self):
        return self.build_dataset_for_inference([], []).src_dict


@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
def test_batches_without_a_loader_are_fairseqs(dictionary, left):
    def build(tokens, sizes):
        return LanguagePairDataset(
            tokens, sizes, dictionary, tgt_dict=dictionary, left_pad_source=left
        )

    direct = DirectBatches(Task(build), lines()[0])
    assert direct.is_possible
    for line in (*lines(), torch.tensor([4, dictionary.pad(), 2])):
        dataset = build([line], [len(line)])
        same(direct.single(line), LanguagePairDataset.collater(dataset, [dataset[0]]))
    batches = list(direct.several(lines(), None, 4, longest=max(SIZES) - 1))
    numbers = [number for batch in batches for number in batch["id"].tolist()]
    assert sorted(numbers) == [n for n, size in enumerate(SIZES) if size < max(SIZES)]
    dataset = build(lines(), SIZES)
    for batch in batches:
        numbers = sorted(sorted(batch["id"].tolist()), key=SIZES.__getitem__)
        samples = [dataset[number] for number in numbers]
        same(batch, LanguagePairDataset.collater(dataset, samples))
        assert len(samples) <= 4


def test_batches_of_other_datasets_need_the_task(dictionary):
    def changed(tokens, sizes):
        return LanguagePairDataset([line + 1 for line in tokens], sizes, dictionary)

    for build in (lambda *given: Other(*given, dictionary), changed):
        assert not DirectBatches(Task(build), lines()[0]).is_possible


class Other(LanguagePairDataset):
    """A dataset that is not fairseq's own."""


@pytest.mark.parametrize(
    "kind, options",
    [
        (LanguagePairDataset, {}),
        (LanguagePairDataset, {"src_lang_id": 3, "tgt_lang_id": 4}),
        (LanguagePairDataset, {"constraints": [torch.tensor([0])] * len(SIZES)}),
        (LanguagePairDataset, {"pad_to_multiple": 8}),
        (Other, {}),
    ],
    ids=["plain", "languages", "constraints", "multiple", "other"],
)
def test_all_batches_are_fairseqs(dictionary, kind, options):
    built = []

    def build(tokens, sizes):
        built.append(kind(tokens, sizes, dictionary, **options))
        return built[-1]

    batches = list(batches_of(Task(build), lines(), DATA, 100, seed=1))
    assert sorted(number for batch in batches for number in batch["id"].tolist()) == [*range(9)]
    for batch in batches:
        # The order of equal sizes depends on the version of fairseq.
        samples = [built[0][number] for number in batch["id"].tolist()]
        same(batch, type(built[0]).collater(built[0], samples))
    collated_here = isinstance(vars(built[0]).get("collater"), functools.partial)
    assert collated_here == (kind is LanguagePairDataset and not options)
