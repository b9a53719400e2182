"""``export``: what a bundle cannot hold is refused, and what it holds is what was asked for."""

import pytest
import torch

import fairseq_fastdec
from examples.common.en_de import MODEL
from fairseq_fastdec.importing import recognising
from fairseq_fastdec.tools.export import export, main
from fairseq_fastdec.translating.bundle_file import read
from tests.support import skips
from tests.support.huggingface import train_sentencepiece
from tests.support.imported_models import random_model, written


def test_the_command(tmp_path, capsys):
    path = tmp_path / "new" / "model.fastdec"
    options = ["--decoding", "blockwise", "--engine-precision", "int8", "--max-len-b", "40"]
    main([str(MODEL), "--output", str(path), *options])
    assert capsys.readouterr().out.startswith(f"{path}: ")
    given = dict(decoding="blockwise", engine_precision="int8", max_len_b=40)
    translator = fairseq_fastdec.load(MODEL, **given)
    text = "Click the Save button."
    assert fairseq_fastdec.load(path).translate(text) == translator.translate(text)
    content = read(path)
    assert content["method"] == "blockwise" and content["rules"]["max_len_b"] == 40


def test_dictionaries_and_languages(tmp_path, corpus, baseline):
    path = tmp_path / "model.fastdec"
    places = ["--data", str(corpus), "-s", "en", "-t", "de", "--tokenizer", "none"]
    main([str(baseline), str(baseline), "--output", str(path), "--beam", "3", *places])
    content = read(path)
    assert len(content["models"]) == 2 and content["languages"] == ("en", "de")
    assert content["method"] == "beam" and content["text"]["coders"] == []


def test_errors_in_one_line(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([str(tmp_path), "--output", str(tmp_path / "a.fastdec")])
    assert stopped.value.code == 2
    assert "has no checkpoint" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([str(MODEL), "--tokenizer", "foo", "--output", str(tmp_path / "a.fastdec")])
    assert "tokenizer foo: unknown; choose from auto, moses," in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def huggingface(*words):
    main([*map(str, words), "--format", "huggingface"])


def test_a_directory_for_transformers(tmp_path, capsys):
    """A model that is written and imported again is the same, and so are its options and files."""
    skips.needs("safetensors.torch")
    codes = "#version: 0.2\n" + "".join(f"w {digit}</w>\n" for digit in range(10))
    imported = written(tmp_path / "model", "one pair", files={"bpe.codes": codes.encode()})
    huggingface(imported, "--output", tmp_path / "out", "--beam", 3, "--max-len-b", 7)
    printed = capsys.readouterr().out
    assert printed.startswith(f"{tmp_path / 'out'}: config.json, generation_config.json, tokenizer")
    assert printed.rstrip().endswith("merges.txt, model.safetensors")
    before, after = random_model("one pair"), recognising.read(tmp_path / "out")
    assert (after.source, after.target) == (before.source, before.target)
    assert (after.source_lang, after.target_lang) == ("en", "de")
    for name, value in after.state.items():
        assert torch.equal(value, before.state[name]), name
    assert (after.defaults["beam"], after.defaults["max_len_b"]) == (3, 7)
    text = "w1 w7 w3"
    ours = fairseq_fastdec.load(imported).translate(text, beam=3, max_len_b=7)
    assert fairseq_fastdec.load(tmp_path / "out").translate(text) == ours != ""


def test_files_of_pieces(tmp_path):
    """Of both languages, by whichever name they have."""
    skips.needs("safetensors.torch")
    pieces = [train_sentencepiece(tmp_path / name, name) for name in ("en", "de")]
    written(tmp_path / "model", "one pair")
    pieces[0].rename(tmp_path / "model/spm.model")
    pieces[1].rename(tmp_path / "model/target.spm")
    huggingface(tmp_path / "model", "--output", tmp_path / "out")
    for ours, theirs in (("spm.model", "source.spm"), ("target.spm", "target.spm")):
        own = (tmp_path / "model" / ours).read_bytes()
        assert (tmp_path / "out" / theirs).read_bytes() == own


@pytest.mark.parametrize(
    "words, message",
    [
        (["{model}", "{model}"], "--format huggingface: writes one model, and 2 are given"),
        (["{model}", "--engine-precision", "int8"], "--engine-precision: is an option of bundles"),
        (["{model}", "--decoding", "greedy"], "--decoding: is an option of bundles; remove it"),
        (["{model}", "--beam", "2"], "--arch blockwise_transformer: only transformers can be"),
    ],
)
def test_what_transformers_cannot_have(tmp_path, words, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        words = [word.format(model=MODEL) for word in words]
        huggingface(*words, "--output", tmp_path / "out")
    assert stopped.value.code == 2
    told = capsys.readouterr().err
    assert message in told and len(told.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_directory_in_use(tmp_path, capsys):
    (tmp_path / "a").touch()
    with pytest.raises(SystemExit):
        huggingface(MODEL, "--output", tmp_path)
    assert f"--output {tmp_path}: is not empty; give a new directory" in capsys.readouterr().err


class Upper:
    def encode(self, text):
        return text.upper()

    decode = encode


@pytest.mark.parametrize(
    "options, message",
    [
        ({"decoding": "fairseq"}, "--decoding fairseq: not supported by bundles"),
        ({"beam": 2, "sampling": True}, "bundles do not support this method or its options"),
        ({"tokenizer": Upper()}, "Upper: bundles support moses, subword_nmt and sentencepiece"),
    ],
)
def test_what_a_bundle_cannot_hold(tmp_path, corpus, baseline, options, message):
    translator = fairseq_fastdec.load(baseline, corpus, **options)
    with pytest.raises(ValueError, match=message):
        export(translator, tmp_path / "a.fastdec")
    assert list(tmp_path.iterdir()) == []


def test_models_without_compiled_code(tmp_path, corpus, baseline, nothing_compiled):
    translator = fairseq_fastdec.load(baseline, corpus)
    with pytest.raises(ValueError, match="with models that compiled code supports"):
        export(translator, tmp_path / "a.fastdec")
