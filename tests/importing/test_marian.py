"""Models of Marian, against Marian's transformer in NumPy."""

import logging
import math

import numpy as np
import pytest
import torch

from fairseq_fastdec.decoding import shortlist as shortlists
from fairseq_fastdec.importing import marian
from fairseq_fastdec.importing.building import dictionary_of
from fairseq_fastdec.importing.imported import UnreadableModel
from fairseq_fastdec.importing.marian_files import Quantised, read_tensors
from fairseq_fastdec.translating.languages import Pair
from tests.support import firefox_models, traces
from tests.support import marian_writing as writing
from tests.support.firefox_models import PAIRS, SENTENCES
from tests.support.marian_numpy import Marian

NEW = 2  # fairseq's vocabularies have two more special symbols
SOURCE, TARGET = np.array([5, 2, 9, 9, 13, 0]), np.array([0, 3, 11, 7, 7])
PRENORM = {"transformer-preprocess": "n", "transformer-postprocess": "da"}
TOP = {**PRENORM, "transformer-postprocess-top": "n"}
UNTIED = {"tied-embeddings-all": False}
OLD_GELU = {"transformer-ffn-activation": "gelu", "version": "v1.9.56 94aeaa46 2021-04-28"}
NEW_GELU = {"transformer-ffn-activation": "gelu", "version": "v1.12.3 d225c24d 2023-03-01"}
# The options, the numbers of source and target types, and the kind of file.
MODELS = {
    "Opus-MT": ({}, 20, 20, "npz"),
    "student": ({**writing.SSRU, "transformer-ffn-activation": "relu"}, 20, 20, "int8"),
    "separate vocabularies": ({**UNTIED, "tied-embeddings": True}, 20, 17, "bin"),
    "student, separate": ({**writing.SSRU, **UNTIED, "tied-embeddings": True}, 20, 23, "int8"),
    "nothing tied": (UNTIED, 18, 21, "npz"),
    "nothing tied, int8": (UNTIED, 18, 21, "int8"),
    "nothing tied, older": ({**UNTIED, "old-output": True}, 18, 21, "npz"),
    "embeddings tied": ({**UNTIED, "tied-embeddings-src": True}, 20, 20, "bin"),
    "norms before": (PRENORM, 20, 20, "bin"),
    "norms before and at the end": (TOP, 20, 20, "npz"),
    "SSRU, norms before and at the end": ({**TOP, **writing.SSRU}, 20, 20, "npz"),
    "gelu by swish": (OLD_GELU, 20, 20, "npz"),
    "exact gelu": (NEW_GELU, 20, 20, "npz"),
    "tied layers": ({"dec-depth": 3, "transformer-tied-layers": [1, 2, 1]}, 20, 20, "npz"),
    "wider decoder": ({"transformer-decoder-dim-ffn": 20, "dec-depth": 1}, 20, 20, "bin"),
    "learned positions": ({"positions": 9}, 20, 20, "npz"),
    "norm of embeddings": ({"transformer-postprocess-emb": "nd"}, 20, 20, "npz"),
    "no projection": ({"transformer-no-projection": True}, 20, 20, "npz"),
    "no bias of the output": ({"output-omit-bias": True}, 20, 20, "npz"),
}


def written(folder, options=(), n_source=20, n_target=20, kind="npz", **changes):
    """Write a random model; ``changes`` replace its tensors, or remove them."""
    tensors = {**writing.random_tensors(options, n_source, n_target), **changes}
    tensors = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    suffix = "npz" if kind == "npz" else "bin"
    int8 = {"is_quantised": True} if kind == "int8" else {}
    return writing.write_directory(folder, tensors, suffix, n_source, n_target, **int8)


def compared(oracle, model, source, target, tolerance):
    """The first tensor that differs, by Marian's numbers of types."""
    oracle.recorded.clear()
    oracle.logits(oracle.encode(source), target)
    ours = traces.of_fairseq(model, (source + NEW).tolist(), (target + NEW).tolist())
    logits = "decoder.output_projection"
    ours[logits] = ours[logits][:, NEW:]
    return traces.first_difference(oracle.recorded, ours, tolerance)


@pytest.mark.parametrize("name", MODELS)
def test_tensors_are_those_of_marian(name, tmp_path):
    folder = written(tmp_path, *MODELS[name])
    model = traces.built(marian.read(folder))
    (path,) = folder.glob("model.[nb]*")
    assert compared(Marian(path), model, SOURCE, TARGET, 1e-4) is None


def test_new_symbols_are_never_chosen(tmp_path):
    imported = marian.read(written(tmp_path))
    assert imported.source[:4] == ["<s>", "<pad>", "</s>", "<unk>"]
    assert imported.state["decoder.output_projection.bias"][:2].tolist() == [-1e9, -1e9]
    assert not imported.state["decoder.embed_tokens.weight"][:2].any()
    assert imported.state["decoder.embed_tokens.weight"][2].any()


def test_one_vocabulary_is_shared(tmp_path):
    shared = marian.read(written(tmp_path / "one")).options
    assert shared["share_all_embeddings"] and shared["share_decoder_input_output_embed"]
    several = {**UNTIED, "tied-embeddings": True}
    separate = marian.read(written(tmp_path / "two", several, 20, 17)).options
    assert not separate["share_all_embeddings"]
    assert separate["share_decoder_input_output_embed"]


def test_one_matrix_with_two_vocabularies(tmp_path):
    folder = written(tmp_path)
    (folder / "model.vocab.yml").unlink()
    writing.write_vocabulary(folder / "src.vocab.yml", writing.pieces(20))
    writing.write_vocabulary(folder / "trg.vocab.yml", writing.pieces(20, "▁z"))
    imported = marian.read(folder)
    assert not imported.options["share_all_embeddings"]
    model = traces.built(imported)
    assert compared(Marian(folder / "model.npz"), model, SOURCE, TARGET, 1e-4) is None


def test_files_and_languages(tmp_path):
    folder = written(tmp_path / "opus-mt-en-pt")
    imported = marian.read(str(folder))
    assert (imported.source_lang, imported.target_lang) == ("en", "pt")
    assert imported.files == {
        "sentencepiece.bpe.model": b"source pieces",
        "target.spm": b"target pieces",
    }
    (folder / "target.spm").write_bytes(b"source pieces")
    imported = marian.read(folder / "model.npz", Pair("eng", "por"))
    assert (imported.source_lang, imported.target_lang) == ("eng", "por")
    assert list(imported.files) == ["sentencepiece.bpe.model"]
    assert imported.languages == {} and imported.source_format == "{text} </s>"


def test_target_languages_are_named_in_the_source(tmp_path):
    folder = written(tmp_path)
    symbols = writing.pieces(20)
    symbols[7:9] = [">>por<<", ">>pt_BR<<"]
    writing.write_vocabulary(folder / "model.vocab.yml", symbols)
    imported = marian.read(folder)
    assert imported.languages == {"por": ">>por<<", "pt_BR": ">>pt_BR<<"}
    assert imported.source_format == "{target} {text} </s>"


REFUSED = {
    "type": "s2s",
    "right-left": True,
    "ulr": True,
    "layer-normalization": True,
    "lemma-dim-emb": 12,
    "factors-combine": "concat",
    "input-types": ["sequence", "class"],
    "transformer-decoder-autoreg": "average-attention",
    "transformer-preprocess": "n",
    "transformer-postprocess": "dhn",
    "transformer-postprocess-top": "n",
    "transformer-postprocess-emb": "a",
    "transformer-ffn-activation": "tanh",
    "transformer-ffn-depth": 3,
    "transformer-decoder-ffn-depth": 1,
    "transformer-attention-mask": "alibi",
    "transformer-pool": True,
    "transformer-no-bias": True,
    "transformer-disable-position-embeddings": True,
    "transformer-some-new-thing": "yes",
    "transformer-tied-layers": [1],
    "transformer-heads": 0,
    "enc-depth": "many",
}


@pytest.mark.parametrize("name", REFUSED)
def test_options_that_are_refused_are_named(name, tmp_path):
    folder = written(tmp_path)
    options = {**writing.OPTIONS, name: REFUSED[name]}
    tensors = writing.random_tensors()
    tensors["special:model.yml"] = writing.model_yml(options)
    writing.write_npz(folder / "model.npz", tensors)
    with pytest.raises(UnreadableModel, match=name) as error:
        marian.read(folder)
    assert str(folder) in str(error.value)


@pytest.mark.parametrize(
    "options, why",
    [
        ({"transformer-postprocess": "dar"}, "RMS norm"),
        ({"transformer-postprocess": "dhn"}, "highway"),
        ({"transformer-decoder-autoreg": "rnn"}, "dec-cell: 'gru'"),
        ({**writing.SSRU, "transformer-rnn-projection": True}, "transformer-rnn-projection"),
        ({**PRENORM, "version": "v1.9.56 94aeaa46"}, "before 1.11"),
        ({"transformer-heads": 3}, "3 heads"),
        ({"enc-depth": 3}, "has no tensor encoder_l3_"),
        ({"dec-depth": 1}, "the tensor decoder_l2_self_Wq is not supported"),
    ],
)
def test_why_options_are_refused(options, why, tmp_path):
    changed = writing.model_yml({**writing.OPTIONS, **options})
    folder = written(tmp_path, **{"special:model.yml": changed})
    with pytest.raises(UnreadableModel, match=why):
        marian.read(folder)


@pytest.mark.parametrize(
    "name, tensor, why",
    [
        ("encoder_l2_self_bq", None, "has no tensor encoder_l2_self_bq"),
        ("encoder_l1_self_Wq", np.zeros((8, 9), "f4"), r"has the shape \[8, 9\], not \[8, 8\]"),
        ("encoder_l1_self_bq", np.zeros((1, 9), "f4"), "has 9 values, not 8"),
        ("Wemb", np.zeros(8, "f4"), r"Wemb has the shape \[8\]"),
        ("Wemb", np.zeros((20, 8), "i1"), "Wemb has the type int8"),
        ("encoder_l1_extra", np.zeros((1, 1), "f4"), "the tensor encoder_l1_extra"),
        ("special:model.yml", None, "has no special:model.yml"),
        ("decoder_ff_logit_out_b", np.full((1, 20), np.nan, "f4"), "not finite"),
    ],
)
def test_tensors_must_fit(name, tensor, why, tmp_path):
    with pytest.raises(UnreadableModel, match=why) as error:
        marian.read(written(tmp_path, **{name: tensor}))
    assert str(tmp_path) in str(error.value) and "\n" not in str(error.value)


def test_multipliers_of_inputs_are_not_needed(tmp_path):
    one = np.ones((1, 1), "f4")
    extra = {"Wemb_QuantMultA": one, "none_QuantMultA": one, "encoder_l1_self_Wq_QuantMultA": one}
    assert marian.read(written(tmp_path, **extra)).arch == "marian_transformer"


DEFAULTS = {
    "beam-size: 6\nnormalize: 0.6\nmax-length-factor: 2.5\n": {
        "unkpen": math.inf, "beam": 6, "lenpen": 0.6, "max_len_a": 2.5, "max_len_b": 0,
    },
    "beam-size: 4\nallow-unk: true\nnormalize: false\n": {"beam": 4, "unnormalized": True},
    "normalize:\n": {"unkpen": math.inf, "unnormalized": True},
    "normalize: true\n": {"unkpen": math.inf, "lenpen": 1.0},
}  # fmt: skip


@pytest.mark.parametrize("text", DEFAULTS)
def test_defaults_of_decoding(text, tmp_path):
    folder = written(tmp_path)
    assert marian.read(folder).defaults == {"unkpen": math.inf}
    (folder / "decoder.yml").write_text(text)
    assert marian.read(folder).defaults == DEFAULTS[text]


def test_penalties_of_words_are_not_used(tmp_path, caplog):
    folder = written(tmp_path)
    (folder / "decoder.yml").write_text("word-penalty: 0.5\nnormalize: 1\n")
    with caplog.at_level(logging.WARNING):
        assert marian.read(folder).defaults["lenpen"] == 1
    assert "word-penalty" in caplog.text


@pytest.mark.parametrize("line", ["beam-size: none", "normalize: [1]", "max-length-factor: 1e999"])
def test_defaults_that_are_no_numbers(line, tmp_path):
    folder = written(tmp_path)
    (folder / "decoder.yml").write_text(line)
    with pytest.raises(UnreadableModel, match=line.split(":")[0]):
        marian.read(folder)


def test_shortlists(tmp_path, caplog):
    folder = written(tmp_path)
    path = folder / "lex.s2t.bin"
    writing.write_shortlist(path, 3, [[number] for number in range(20)])
    assert marian.read(folder).files["shortlist.s2t.bin"] == path.read_bytes()
    writing.write_shortlist(path, 3, [[number] for number in range(19)])
    with pytest.raises(UnreadableModel, match="lex.s2t.bin: is for 19 source types"):
        marian.read(folder)
    path.write_bytes(b"word wort 0.5\n")
    with caplog.at_level(logging.WARNING):
        assert "shortlist.s2t.bin" not in marian.read(folder).files
    assert "is not a binary shortlist" in caplog.text


def test_shortlists_of_unusual_vocabularies(tmp_path, caplog):
    folder = written(tmp_path)
    writing.write_vocabulary(folder / "model.vocab.yml", [*writing.pieces(20)[::-1]])
    writing.write_shortlist(folder / "lex.s2t.bin", 3, [[number] for number in range(20)])
    with caplog.at_level(logging.WARNING):
        assert "shortlist.s2t.bin" not in marian.read(folder).files
    assert "</s> and <unk> are not 0 and 1" in caplog.text


@pytest.mark.parametrize("pair", PAIRS)
def test_a_model_of_firefox(pair):
    folder = firefox_models.directory(pair)
    imported = firefox_models.imported(pair)
    assert imported.arch == "ssru_transformer"
    assert imported.source_lang + imported.target_lang == pair
    assert set(imported.files) == {"sentencepiece.bpe.model", "shortlist.s2t.bin"}
    assert imported.defaults == {
        "shortlist": "shortlist.s2t.bin",
        "unkpen": math.inf, "beam": 1, "lenpen": 1.0, "max_len_a": 2.5, "max_len_b": 0,
    }  # fmt: skip
    (path,) = folder.glob("model*.bin")
    for name, tensor in read_tensors(path).items():
        if isinstance(tensor, Quantised) and tensor.values.size > 1:
            assert np.abs(tensor.values.astype(int)).max() == 127, name


@pytest.mark.parametrize("pair", PAIRS)
def test_tensors_of_a_model_of_firefox(pair):
    oracle, model = firefox_models.oracle(pair), firefox_models.model(pair)
    for sentence in SENTENCES[pair][:3]:
        source = np.array([*firefox_models.pieces(pair).encode(sentence), 0])
        target = np.array([0, *oracle.greedy(source)[:2]])
        assert compared(oracle, model, source, target, 1e-3) is None


@pytest.mark.parametrize("pair", PAIRS)
def test_translations_of_a_model_of_firefox(pair):
    oracle, model = firefox_models.oracle(pair), firefox_models.model(pair)
    for sentence in SENTENCES[pair]:
        source = np.array([*firefox_models.pieces(pair).encode(sentence), 0])
        expected = oracle.greedy(source)
        assert 2 < len(expected) < 30
        given = torch.tensor([[0, *expected]]) + NEW
        with torch.no_grad():
            lengths = torch.tensor([len(source)])
            logits = model(torch.from_numpy(source + NEW)[None], lengths, given)[0][0]
        logits[:, 1 + NEW] = -math.inf
        assert (logits.argmax(-1) - NEW).tolist() == [*expected, 0], sentence


@pytest.mark.parametrize("pair", PAIRS)
def test_a_shortlist_of_firefox_has_the_usual_translations(pair, tmp_path):
    oracle = firefox_models.oracle(pair)
    imported = firefox_models.imported(pair)
    path = tmp_path / "lex.s2t.bin"
    path.write_bytes(imported.files["shortlist.s2t.bin"])
    words = dictionary_of(imported.source)
    shortlist = shortlists.load(str(path), words, words)
    same = 0
    for sentence in SENTENCES[pair][:4]:
        source = np.array([*firefox_models.pieces(pair).encode(sentence), 0])
        types = shortlist.types_of(source[None] + NEW, None)[0] - NEW
        assert len(types) < 2000 and len(types) % 8 == 0
        same += oracle.greedy(source, types=types) == oracle.greedy(source)
    assert same >= 3
