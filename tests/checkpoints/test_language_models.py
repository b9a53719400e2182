"""Language models in Python, in bundles, in the service and in ``translate``."""

import asyncio

import pytest

import fairseq_fastdec
from fairseq_fastdec.corpora import command as corpora
from fairseq_fastdec.serving.command import open_translator
from fairseq_fastdec.serving.config import ModelOptions, read
from fairseq_fastdec.tools.export import main as export
from tests.support import command_line

WEIGHT = 0.8
LINES = ["a b c", "d e", "f g h i j", "c", "b a b a b a"]


def loaded(baseline, corpus, **options):
    return fairseq_fastdec.load(baseline, data=corpus, tokenizer=None, **options)


@pytest.fixture(scope="module")
def expected(language_model, baseline, tmp_path_factory):
    """What fairseq-generate finds, by line."""
    data, lm = language_model
    place = tmp_path_factory.mktemp("lines")
    for side in ("en", "de"):
        text = "".join(f"{line}\n" for line in LINES)
        (place / f"test.{side}").write_text(text, encoding="utf-8")
    command_line.preprocess(
        "-s", "en", "-t", "de", "--destdir", place / "bin", "--testpref", place / "test",
        "--srcdict", data / "dict.en.txt", "--tgtdict", data / "dict.de.txt",
    )  # fmt: skip
    (place / "bin/dict.txt").write_bytes((data / "dict.txt").read_bytes())

    def found(weight, beam):
        printed = command_line.generate(
            place / "bin", baseline, "--beam", beam, "--lm-path", lm, "--lm-weight", weight,
            "--batch-size", 1,
        )  # fmt: skip
        by_number = command_line.hypotheses(printed)
        return [by_number[number] for number in range(len(LINES))]

    return {(weight, beam): found(weight, beam) for weight in (0, WEIGHT) for beam in (1, 3)}


def test_options_of_calls(language_model, corpus, baseline, expected):
    translator = loaded(baseline, corpus, lm_path=str(language_model[1]))
    assert len(set(map(tuple, expected.values()))) > 1
    for (weight, beam), texts in expected.items():
        assert translator.translate(LINES, beam=beam, lm_weight=weight) == texts
    usual = loaded(baseline, corpus, lm_path=str(language_model[1]), lm_weight=WEIGHT, beam=3)
    assert usual.translate(LINES) == expected[WEIGHT, 3]
    assert usual.translate(LINES, lm_weight=0) == expected[0, 3]
    stream = usual.translate_stream(LINES)
    assert [own.text for _, own in stream] == expected[WEIGHT, 3]

    async def joined():
        return await asyncio.gather(*(usual.translate_async(line) for line in LINES))

    assert asyncio.run(joined()) == expected[WEIGHT, 3]
    plain = loaded(baseline, corpus)
    assert usual.score(LINES, LINES) == plain.score(LINES, LINES)
    with pytest.raises(ValueError, match="^--lm-weight 0.8: has no effect without --lm-path"):
        plain.translate(LINES, lm_weight=WEIGHT)


@pytest.fixture(scope="module")
def bundle(language_model, corpus, baseline, tmp_path_factory):
    path = tmp_path_factory.mktemp("bundle") / "model.fastdec"
    export([
        str(baseline), "--data", str(corpus), "--tokenizer", "none", "--output", str(path),
        "--beam", "3", "--lm-path", str(language_model[1]), "--lm-weight", str(WEIGHT),
    ])  # fmt: skip
    return path


def test_bundles(bundle, corpus, baseline, expected, tmp_path):
    translator = fairseq_fastdec.load(bundle)
    assert translator.translate(LINES) == expected[WEIGHT, 3]
    for (weight, beam), texts in expected.items():
        assert translator.translate(LINES, beam=beam, lm_weight=weight) == texts
    assert translator.score(LINES, LINES) == pytest.approx(
        loaded(baseline, corpus).score(LINES, LINES), abs=1e-5
    )
    alignments = translator.translate(LINES, alignment=True, details=True)
    assert all(own.alignment for own in alignments)
    plain = tmp_path / "plain.fastdec"
    places = ["--data", str(corpus), "--tokenizer", "none"]
    export([str(baseline), *places, "--output", str(plain)])
    message = "^lm_weight 0.8: the bundle has no language model; export it with --lm-path$"
    with pytest.raises(ValueError, match=message):
        fairseq_fastdec.load(plain, lm_weight=WEIGHT)


@pytest.mark.parametrize("options", [[], ["--lm-weight", "0"]])
def test_a_bundle_needs_a_weight(language_model, baseline, corpus, tmp_path, capsys, options):
    lm, path = str(language_model[1]), tmp_path / "model.fastdec"
    given = [str(baseline), "--data", str(corpus), "--output", str(path), "--lm-path", lm]
    with pytest.raises(SystemExit):
        export([*given, *options])
    message = f"--lm-path {lm}: needs a --lm-weight other than 0; give it\n"
    assert capsys.readouterr().err.endswith(message) and not path.exists()


def test_translate(bundle, language_model, corpus, baseline, expected, tmp_path, monkeypatch):
    source, output = tmp_path / "source", tmp_path / "output"
    source.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")

    def translated(*options):
        output.unlink(missing_ok=True)
        files = ["--input", source, "--output", output, "--workers", 1, "--no-progress-bar"]
        corpora.main([*map(str, [*options, *files])])
        return output.read_text(encoding="utf-8").splitlines()

    assert translated(bundle) == expected[WEIGHT, 3]
    assert translated(bundle, "--lm-weight", 0, "--beam", 1) == expected[0, 1]
    places = [baseline, "--data", corpus, "--tokenizer", "none", "--beam", 3]
    lm = ["--lm-path", language_model[1], "--lm-weight", WEIGHT]
    assert translated(*places, *lm) == expected[WEIGHT, 3]


def test_the_service(bundle, language_model, corpus, expected, tmp_path):
    config = tmp_path / "serve.toml"
    config.write_text(
        f'[[models]]\npath = "{bundle}"\nlm_weight = 0.0\n'
        f'[[models]]\npath = "{bundle}"\nlm_path = "lm.pt"\n',
        encoding="utf-8",
    )
    weightless, with_path = read(str(config)).models
    assert with_path.lm_path == str(tmp_path / "lm.pt")
    for model, weight in ((ModelOptions(str(bundle)), WEIGHT), (weightless, 0)):
        translator = open_translator(model.path, **model.decoding_options())
        found = [own.text for _, own in translator.translate_stream(LINES)]
        translator.close()
        assert found == expected[weight, 3]
    with pytest.raises(ValueError, match="^lm_path: not an option of a bundle"):
        open_translator(with_path.path, **with_path.decoding_options())
    config.write_text('[[models]]\npath = "a"\nlm_weight = "0.2"\n', encoding="utf-8")
    with pytest.raises(ValueError, match="lm_weight '0.2': must be a number$"):
        read(str(config))
