"""``prepare-data`` end to end, on a corpus of a few sentences."""

import gzip
import lzma
import re

import pytest
from fairseq import options
from fairseq.data import Dictionary, data_utils, encoders
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli import generate

import fairseq_fastdec
from fairseq_fastdec.tools import prepare_data
from fairseq_fastdec.translating.text import SentencePiece
from tests.support import command_line, huggingface, imported_models, skips

ENGLISH = [
    "Choose Format - Cells to open the dialog.",
    "The user's well-known \"quoted\" file isn't there (yet).",
    "Prices rose 3.5% & fell <again>; see [1] | 2.",
    "Select the cells, then click OK.",
]
GERMAN = [
    "Wählen Sie Format - Zellen, um den Dialog zu öffnen.",
    "Die „bekannte“ Datei des Anwenders ist (noch) nicht da.",
    "Die Preise stiegen um 3,5% & fielen <wieder>; siehe [1] | 2.",
    "Markieren Sie die Zellen und klicken Sie auf OK.",
]
TEST_ENGLISH = ["The cells' \"new\" dialog isn't open.", "", "Click\u00a0OK\t& see  Ω.", "\u2028"]
TEST_GERMAN = ["Der neue Dialog ist nicht offen.", "Nicht leer.", "", ""]
OPENERS = {"": open, ".gz": gzip.open, ".xz": lzma.open}


def write(prefix, english, german, suffix=""):
    for language, lines in (("en", english), ("de", german)):
        with OPENERS[suffix](f"{prefix}.{language}{suffix}", "wt", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in lines))


@pytest.fixture()
def raw(tmp_path):
    """The folder of train, valid and test."""
    write(tmp_path / "train", ENGLISH * 4, GERMAN * 4)
    write(tmp_path / "valid", ENGLISH[:2], GERMAN[:2])
    write(tmp_path / "test", TEST_ENGLISH, TEST_GERMAN)
    return tmp_path


@pytest.fixture()
def prepare(raw):
    """A function that runs the script on prefixes in ``raw``."""

    def run(*arguments, destdir="data", train=("train",), workers=1):
        words = ["-s", "en", "-t", "de", "--bpe-operations", 60]
        words += ["--train", *(raw / prefix for prefix in train)]
        words += ["--valid", raw / "valid", "--test", raw / "test", "--destdir", raw / destdir]
        words += ["--workers", workers, *arguments]
        prepare_data.main([str(word) for word in words])

    return run


@pytest.fixture()
def error_of(prepare):
    """A function that runs the script, which has to fail, and returns its message."""

    def run(*arguments, **more):
        with pytest.raises(SystemExit) as stopped:
            prepare(*arguments, **more)
        return str(stopped.value)

    return run


def sentences(directory, split, language):
    """What fairseq loads, as strings."""
    words = Dictionary.load(str(directory / f"dict.{language}.txt"))
    dataset = data_utils.load_indexed_dataset(str(directory / f"{split}.en-de.{language}"), words)
    return [words.string(dataset[index]) for index in range(len(dataset))]


def interactive(directory):
    """The tokenizer, BPE and dictionary that fairseq-interactive builds from its command line."""
    parser = options.get_interactive_generation_parser()
    arguments = [str(directory), "-s", "en", "-t", "de", "--path", "model.pt"]
    arguments += ["--tokenizer", "moses", "--bpe", "subword_nmt"]
    arguments += ["--bpe-codes", str(directory / "bpe.codes")]
    config = convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, arguments))
    words = Dictionary.load(str(directory / "dict.en.txt"))
    return encoders.build_tokenizer(config.tokenizer), encoders.build_bpe(config.bpe), words


def as_interactive(lines, directory):
    """Source lines as fairseq-interactive hands them to the model."""
    tokenizer, bpe, words = interactive(directory)
    encoded = (bpe.encode(tokenizer.encode(line.strip())) for line in lines)
    return [words.string(words.encode_line(line, add_if_not_exist=False)) for line in encoded]


def contents(directory):
    """Every file that training reads; the log names paths."""
    files = (f for f in directory.rglob("*") if f.is_file() and f.name != "preprocess.log")
    return {str(file.relative_to(directory)): file.read_bytes() for file in files}


def test_data_is_what_fairseq_interactive_makes_of_the_same_lines(raw, prepare):
    prepare()
    data = raw / "data"
    assert sentences(data, "test", "en") == as_interactive(TEST_ENGLISH, data)
    assert sentences(data, "train", "en") == as_interactive(ENGLISH * 4, data)
    assert (data / "dict.en.txt").read_bytes() == (data / "dict.de.txt").read_bytes()
    assert (data / "text" / "test.en").read_text(encoding="utf-8").count("\n") == 4


def test_fairseq_prints_the_references_as_they_were_written(raw, prepare):
    prepare()
    tokenizer, bpe, _ = interactive(raw / "data")
    references = sentences(raw / "data", "valid", "de")
    assert [tokenizer.decode(bpe.decode(line)) for line in references] == GERMAN[:2]


def test_only_training_pairs_are_cleaned(raw, prepare, capsys):
    long = "cells " * 200
    badly_aligned = "click " * 40
    write(raw / "more", ["", "OK", long, badly_aligned], ["Leer.", "", long, "ja"])
    write(raw / "test", ["", "OK", long, badly_aligned], ["Leer.", "", long, "ja"])
    prepare(train=("train", "more"))
    assert "training pairs: 16 kept, 4 left out" in capsys.readouterr().out
    for language in ("en", "de"):
        assert len(sentences(raw / "data", "train", language)) == 16
        assert len(sentences(raw / "data", "test", language)) == 4
    assert sentences(raw / "data", "test", "en")[0] == ""


def test_compressed_files_and_several_processes_give_the_same_bytes(raw, prepare):
    write(raw / "first", ENGLISH * 2, GERMAN * 2, suffix=".xz")
    write(raw / "second", ENGLISH * 2, GERMAN * 2, suffix=".gz")
    prepare(destdir="plain")
    prepare(destdir="packed", train=("first", "second"), workers=3)
    assert contents(raw / "plain") == contents(raw / "packed")


def test_separate_dictionaries(raw, prepare):
    prepare("--separate-dictionaries")
    english, german = (
        (raw / "data" / f"dict.{language}.txt").read_text(encoding="utf-8")
        for language in ("en", "de")
    )
    assert "ä" in german and "ä" not in english


def test_rare_pairs_are_not_merged(raw, prepare):
    prepare("--min-frequency", 17, destdir="few")
    prepare(destdir="many")
    few, many = (
        (raw / name / "bpe.codes").read_text(encoding="utf-8").splitlines()
        for name in ("few", "many")
    )
    assert 1 < len(few) < len(many) == 61 and many[: len(few)] == few


def test_bad_files_are_told_before_anything_is_written(raw, error_of):
    assert "no file" in error_of(train=["nowhere"])
    write(raw / "uneven", ENGLISH, GERMAN[:3])
    assert "uneven: 4 lines of en but 3 of de" in error_of(train=["uneven"])
    write(raw / "empty", [], [])
    assert "--train" in error_of(train=["empty"]) and "has no lines" in error_of(train=["empty"])
    write(raw / "latin", ENGLISH, GERMAN)
    (raw / "latin.de").write_bytes(b"Zellen\n\xd6ffnen\n")
    assert "latin.de, line 2: not UTF-8" in error_of(train=["latin"])
    for suffix in (".xz", ".gz"):
        write(raw / f"cut{suffix}", ENGLISH, GERMAN, suffix)
        packed = raw / f"cut{suffix}.en{suffix}"
        packed.write_bytes(packed.read_bytes()[:-20])
        assert "cannot be read" in error_of(train=[f"cut{suffix}"])
    assert not (raw / "data").exists()


def test_a_failure_leaves_nothing_behind(raw, error_of):
    write(raw / "blank", ["", "a"], ["b", ""])
    assert "--min-frequency 2: no pair of letters" in error_of(train=["blank"])
    assert "--min-frequency 99: no pair of letters" in error_of("--min-frequency", 99)
    write(raw / "blank", ["", "cells cells"], ["Zellen", ""])
    assert "no training pair is left" in error_of(train=["blank"])
    assert not (raw / "data").exists()


def test_a_directory_with_other_data_is_left_alone(raw, error_of):
    (raw / "data").mkdir()
    (raw / "data" / "dict.en.txt").write_text("mine 1\n")
    assert "is not empty" in error_of()
    assert contents(raw / "data") == {"dict.en.txt": b"mine 1\n"}


def test_options_are_checked(error_of, capsys):
    for value in ("0", "-1", "many"):
        error_of("--max-len", value)
        message = capsys.readouterr().err
        assert f"--max-len: {value}: must be a whole number of at least 1" in message
    assert "--target-lang are both en" in error_of("-t", "en")


MODEL_ENGLISH, MODEL_GERMAN = ["w1 w2 w3", "w5 new"], ["w7 w7", "w0 w19 w19"]


@pytest.fixture()
def text_of_a_model(tmp_path):
    """Prefixes of text in the words of a model, by the names of its languages."""

    def text(source, target):
        for split in ("train", "valid"):
            for language, lines in ((source, MODEL_ENGLISH), (target, MODEL_GERMAN)):
                path = tmp_path / f"{split}.{language}"
                path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        words = ["-s", source, "-t", target, "--destdir", tmp_path / "data", "--workers", 1]
        return [*words, "--train", tmp_path / "train", "--valid", tmp_path / "valid"]

    return text


def prepared(*arguments):
    prepare_data.main([str(argument) for argument in arguments])


def test_the_subwords_and_dictionaries_of_a_model(text_of_a_model, tmp_path):
    model = imported_models.written(tmp_path / "model", "one pair")
    prepared(*text_of_a_model("en", "de"), "--model", model)
    data = tmp_path / "data"
    assert sentences(data, "train", "en") == ["w1 w2 w3", "w5 <unk>"]
    assert sentences(data, "valid", "de") == MODEL_GERMAN
    for language in ("en", "de"):
        own, of_model = ((folder / f"dict.{language}.txt").read_text() for folder in (data, model))
        assert own == of_model
    assert not (data / "languages.json").exists()


def test_a_model_of_many_languages(text_of_a_model, tmp_path):
    model = imported_models.written(tmp_path / "model")
    pair = ("eng_Latn", "zho_Hans")
    prepared(*text_of_a_model(*pair), "--model", model / "checkpoint.pt")
    data = tmp_path / "data"
    command = [data, "--path", model / "checkpoint.pt", "--gen-subset", "valid", "--max-len-b", 9]
    command += ["--decoding", "greedy"]
    task = ["--task", "translation_languages"]
    printed = command_line.run(generate, *command, *command_line.COMMON, *task)
    translator = fairseq_fastdec.load(model)
    expected = translator.translate(MODEL_ENGLISH, source=pair[0], target=pair[1], max_len_b=9)
    found = command_line.hypotheses(printed)
    assert [found[number] for number in range(2)] == expected
    # Text of the references has no tokens of languages.
    assert re.findall(r"(?m)^T-\d\t(.*)$", printed) == [MODEL_GERMAN[0], MODEL_GERMAN[1]]
    with pytest.raises(ValueError, match="data has languages.json.*use --task translation_lang"):
        command_line.run(generate, *command, *command_line.COMMON)
    (data / "languages.json").write_text("[1]")
    with pytest.raises(ValueError, match="languages.json: is not valid"):
        command_line.run(generate, *command, *command_line.COMMON, *task)


@pytest.mark.parametrize(
    "given", [["--bpe-operations", 9], ["--min-frequency", 3], ["--separate-dictionaries"]]
)
def test_what_a_model_has_cannot_be_learned(text_of_a_model, tmp_path, given, capsys):
    with pytest.raises(SystemExit) as stopped:
        prepared(*text_of_a_model("en", "de"), "--model", tmp_path, *given)
    assert f"{given[0]}: has no effect with --model; remove one of them" in str(stopped.value)
    assert not (tmp_path / "data").exists()


def test_the_files_of_a_bpe_are_copied(text_of_a_model, tmp_path):
    skips.needs("sentencepiece")
    pieces = {"sentencepiece.bpe.model": "en", "target.spm": "de"}
    files = {
        name: huggingface.train_sentencepiece(tmp_path / language, language).read_bytes()
        for name, language in pieces.items()
    }
    model = imported_models.written(tmp_path / "model", "one pair", files=files)
    prepared(*text_of_a_model("en", "de"), "--model", model)
    assert {name: (tmp_path / "data" / name).read_bytes() for name in pieces} == files
    # Each side has the pieces of its own model.
    for name, (language, lines) in zip(files, {"en": MODEL_ENGLISH, "de": MODEL_GERMAN}.items()):
        text = (tmp_path / "data" / "text" / f"valid.{language}").read_text(encoding="utf-8")
        own = SentencePiece(files[name])
        assert text.splitlines() == [own.encode(line) for line in lines]
