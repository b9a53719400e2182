"""``export``: what a bundle cannot hold is refused, and what it holds is what was asked for."""

import pytest

import fairseq_fastdec
from examples.common.en_de import MODEL
from fairseq_fastdec.tools.export import export, main
from fairseq_fastdec.translating.bundle_file import read


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
