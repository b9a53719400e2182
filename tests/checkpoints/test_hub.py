"""The hub interface does what it is asked for, or refuses it by name."""

import random

import pytest
import torch
from fairseq.hub_utils import GeneratorHubInterface
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
        (
            dict(decodign="greedy"),
            "^decodign: not an option of the hub interface; did you mean deco",
        ),
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


@pytest.mark.parametrize("options", [dict(beam=1), dict(decoding="beam", beam=3, lenpen=0.6)])
def test_hypotheses_are_those_of_the_call_without_kept_generators(hub, load, options):
    sentences = [hub.encode(line) for line in ("a b c", "j i", "c a d", "f", "a b c d e f g")]
    stock = GeneratorHubInterface.generate.__wrapped__
    for _ in range(2):
        for given in (sentences, sentences[:1]):
            expected = stock(hub, given, **options)
            found = hub.generate(given, **options)
            assert [len(best) for best in found] == [len(best) for best in expected]
            for own, other in zip(sum(found, []), sum(expected, [])):
                assert torch.equal(own["tokens"], other["tokens"])
                assert torch.allclose(own["positional_scores"], other["positional_scores"])
                assert own.keys() == other.keys()
    (best, *_) = hub.generate(sentences[0], **options)
    assert torch.equal(best["tokens"], hub.generate(sentences[:1], **options)[0][0]["tokens"])


def test_generators_are_built_once(hub, monkeypatch):
    built, build = [], type(hub.task).build_generator

    def count(task, models, args, *rest, **others):
        built.append(args)
        return build(task, models, args, *rest, **others)

    monkeypatch.setattr(type(hub.task), "build_generator", count)
    for _ in range(3):
        hub.translate(["a b c", "d e"], decoding="greedy", max_len_b=17)
        hub.translate("a b", decoding="beam", beam=2, max_len_b=17)
    assert len(built) == 2
    hub.cfg.generation.max_len_b = 3
    try:
        assert len(hub.translate("a b c d e f", decoding="greedy").split()) <= 3
    finally:
        hub.cfg.generation.max_len_b = 200
    assert len(built) == 3


def test_weights_that_have_changed_since_are_noticed(load):
    hub = load(decoding="greedy")
    before = hub.generate(hub.encode("a b c"))[0]["score"]
    with torch.no_grad():
        for parameter in hub.models[0].parameters():
            parameter.mul_(0.9)
    after = hub.generate(hub.encode("a b c"))[0]["score"]
    expected = hub.generate(hub.encode("a b c"), beam=1, decoding="fairseq")[0]["score"]
    assert before != after and torch.allclose(after, expected, atol=1e-4)


def test_statistics_are_those_of_the_last_call(hub, tmp_path):
    file = tmp_path / "stats"
    for lines in (["a", "b c"], ["a b"]):
        hub.translate(lines, decoding="greedy", decoding_stats=str(file))
        assert len(file.read_text().splitlines()) == len(lines)


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
    message = r" \(from 0\): has 2001 source tokens, but the model has positions for 1024; split it"
    with pytest.raises(ValueError, match="^sentence 1" + message):
        hub.translate(["a b c", long])
    with pytest.raises(ValueError, match="^sentence 0" + message):
        hub.generate(hub.encode(long), beam=1)


def test_options_that_the_hub_has_itself(hub):
    assert hub.translate(
        ["a b c", " ".join("a" * 2000)], verbose=False, skip_invalid_size_inputs=True, lenpen=0.6
    ) == [hub.translate("a b c")]


def test_misspelt_options_at_loading(load):
    with pytest.raises(
        ValueError, match="^decodign: not an option of the model; did you mean decod"
    ):
        load(decodign="greedy")


def test_a_model_of_another_task_has_no_decoding_methods(load, monkeypatch):
    monkeypatch.setitem(TASK_REGISTRY, "translation", STOCK["translation"].task)
    monkeypatch.setitem(TASK_DATACLASS_REGISTRY, "translation", STOCK["translation"].options)
    stock = load()
    with pytest.raises(
        ValueError, match="^decoding: not an option of TranslationTask.*register_fastdec"
    ):
        stock.translate("a b c", decoding="greedy")
    # fairseq ignores names that it does not know.
    assert stock.translate("a b c", decodign="greedy") == stock.translate("a b c")


@pytest.mark.parametrize("decoding", ["greedy", "beam", "fairseq"])
@pytest.mark.parametrize("seed", range(3))
def test_prefixes_belong_to_the_sentences_that_fairseq_gives_them_to(hub, decoding, seed):
    """Rows of a prefix are those of a batch, where fairseq orders equal lengths at random."""
    draw = random.Random(seed)
    lines = [" ".join(draw.choices("abcdefgh", k=draw.choice([2, 2, 3, 4]))) for _ in range(12)]
    sentences = [hub.encode(line) for line in lines]
    letters = [hub.task.target_dictionary.index(draw.choice("abcdefgh")) for _ in lines]
    step = {"prefix_tokens": torch.tensor(letters)[:, None]}
    options = dict(beam=1, decoding=decoding, inference_step_args=step)
    stock = GeneratorHubInterface.generate.__wrapped__
    expected = stock(hub, sentences, **options)
    found = hub.generate(sentences, **options)
    assert [own[0]["tokens"].tolist() for own in found] == [
        own[0]["tokens"].tolist() for own in expected
    ]
    assert sorted(own[0]["tokens"][0].item() for own in found) == sorted(letters)


@pytest.mark.parametrize("method", ["greedy", "beam"])
def test_alignments_are_those_of_fairseq(hub, method):
    sentences = [hub.encode(line) for line in ("a b c", "j i", "c a d")]
    options = dict(beam=1 if method == "greedy" else 3, print_alignment="hard")
    ours = hub.generate(sentences, decoding=method, **options)
    stock = hub.generate(sentences, decoding="fairseq", **options)
    for own, expected in zip(ours, stock):
        assert own[0]["alignment"] == expected[0]["alignment"] and own[0]["alignment"]
