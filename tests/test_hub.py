"""The hub interface does what it is asked for, or refuses it by name."""

import pytest
import torch
from fairseq.models.transformer import TransformerModel
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY

from fairseq_fastdec.tasks.registration import STOCK
from fairseq_fastdec.tasks.translation_fastdec import TranslationFastdecTask


@pytest.fixture(scope="module")
def load(corpus, baseline):
    """Load the stock checkpoint as the documents say."""

    def load_with(**options):
        return TransformerModel.from_pretrained(
            str(baseline.parent), baseline.name, str(corpus), tokenizer=None, bpe=None, **options
        )

    return load_with


@pytest.fixture(scope="module")
def hub(load):
    return load()


def test_a_checkpoint_of_the_stock_task(load, hub):
    assert type(hub.task) is TranslationFastdecTask
    expected = load().translate(["a b c", "j i"], beam=1)
    assert hub.translate(["a b c", "j i"], decoding="lookahead", lookahead_window=3) == expected
    with pytest.raises(ValueError, match="--decoding speculative: unknown"):
        hub.translate("a b c", decoding="speculative")


def test_options_for_all_calls(load):
    hub = load(decoding="lookahead", lookahead_window=0)
    with pytest.raises(ValueError, match="--lookahead-window 0: must be at least 1"):
        hub.translate("a b c")


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(decodign="greedy"), "^decodign: no option of the hub interface; did you mean deco"),
        (dict(decoding="greedy", shortlst="f"), "^shortlst: .* did you mean shortlist?"),
        (dict(prefix_size=2), "^prefix_size: only fairseq-generate reads it"),
    ],
)
def test_misspelt_options(hub, options, message):
    for call in (hub.translate, hub.sample):
        with pytest.raises(ValueError, match=message):
            call("a b c", **options)
    with pytest.raises(ValueError, match=message):
        hub.generate(hub.encode("a b c"), **options)


def test_every_call_draws_anew(hub):
    def drawn():
        options = dict(decoding="beam", beam=1, sampling=True, temperature=3.0, max_len_b=12)
        return hub.translate(["a b c d e f g h"], **options)

    torch.manual_seed(1)
    first = [drawn() for _ in range(3)]
    assert len({own[0] for own in first}) > 1
    torch.manual_seed(1)
    assert [drawn() for _ in range(3)] == first


def test_a_source_beyond_the_positions(load):
    hub, long = load(), " ".join("a" * 2000)
    message = r" \(from 0\): has 2001 source tokens, and the model positions for 1024; divide it"
    with pytest.raises(ValueError, match="^sentence 1" + message):
        hub.translate(["a b c", long])
    with pytest.raises(ValueError, match="^sentence 0" + message):
        hub.generate(hub.encode(long), beam=1)


def test_options_that_the_hub_has_itself(hub):
    assert hub.translate(
        ["a b c", " ".join("a" * 2000)], verbose=False, skip_invalid_size_inputs=True, lenpen=0.6
    ) == [hub.translate("a b c")]


def test_misspelt_options_at_loading(load):
    with pytest.raises(ValueError, match="^decodign: no option of the model; did you mean decod"):
        load(decodign="greedy")


def test_a_model_of_another_task_has_no_decoding_methods(load, monkeypatch):
    monkeypatch.setitem(TASK_REGISTRY, "translation", STOCK["translation"].task)
    monkeypatch.setitem(TASK_DATACLASS_REGISTRY, "translation", STOCK["translation"].options)
    stock = load()
    with pytest.raises(ValueError, match="^decoding: TranslationTask .* register_fastdec"):
        stock.translate("a b c", decoding="greedy")
    # fairseq ignores names that it does not know.
    assert stock.translate("a b c", decodign="greedy") == stock.translate("a b c")
