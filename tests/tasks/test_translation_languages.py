"""Models whose inputs name the languages, by fairseq's commands."""

import json
import shutil

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

from tests.support import command_line, imported_models
from tests.support.command_line import hypotheses, numbered
from tests.support.imported_models import FORMATS, built, random_model, written
from tests.support.words import write_words

LINES = ["w1 w2 w3", "w5", "w7 w7 w1 w9 w4 w2", "w0 w19 w19"]
TARGETS = ["w4 w5", "w6 w6", "w1 w2 w3", "w19 w3"]
SOURCE, TARGET = "eng_Latn", "fra_Latn"
BEAM = ["--beam", 4, "--nbest", 2, "--max-len-a", 0, "--max-len-b", 9]


def options_of(format, source=SOURCE, target=TARGET):
    """The options of the task for a model."""
    source_format, target_format = FORMATS[format]
    tokens = json.dumps(random_model(format).languages)
    return [
        "--task", "translation_languages", "--language-tokens", tokens, "-s", source, "-t", target,
        "--source-format", source_format, "--target-format", target_format,
    ]  # fmt: skip


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The directories of models with languages, by their formats."""
    folder = tmp_path_factory.mktemp("formats")
    return {format: written(folder / format, format) for format in FORMATS}


@pytest.fixture(scope="module")
def data(models, tmp_path_factory):
    """Binarised sentences and their translations; the only dictionary is that of all languages."""
    folder, dictionary = tmp_path_factory.mktemp("data"), models["NLLB"] / "dict.all.txt"
    write_words(folder / f"test.{SOURCE}", [line.split() for line in LINES])
    write_words(folder / f"test.{TARGET}", [line.split() for line in TARGETS])
    command_line.preprocess(
        "-s", SOURCE, "-t", TARGET, "--srcdict", dictionary, "--joined-dictionary",
        "--destdir", folder / "bin", "--testpref", folder / "test",
    )  # fmt: skip
    for language in (SOURCE, TARGET):
        (folder / "bin" / f"dict.{language}.txt").unlink()
    shutil.copy(dictionary, folder / "bin")
    return folder / "bin"


def by_hand(format, prefixes=None, beam=4, nbest=2):
    """fairseq's hypotheses of each sentence, with its tokens around it and forced by hand."""
    model, task = built(random_model(format))
    words = task.source_dictionary
    own = imported_models.surroundings(random_model(format), SOURCE, TARGET)
    generator = SequenceGenerator([model], words, beam_size=beam, max_len_a=0, max_len_b=9)
    found = []
    for number, line in enumerate(LINES):
        numbers = [words.indices[word] for word in line.split()]
        tokens = torch.tensor([[*own.before, *numbers, *own.behind]])
        net_input = {"src_tokens": tokens, "src_lengths": torch.tensor([tokens.size(1)])}
        forced = [*own.prefix, *(prefixes[number] if prefixes else [])]
        prefix = torch.tensor([forced]) if forced else None
        sample = {"net_input": net_input}
        (best,) = generator.generate([model], sample, prefix_tokens=prefix, bos_token=own.bos)
        found.append([(own["tokens"].tolist(), own["score"].item()) for own in best[:nbest]])
    return words, found


def printed_by_hand(format, **options):
    """The hypotheses as fairseq prints them, without the tokens of languages."""
    words, found = by_hand(format, **options)
    unprinted = {*random_model(format).languages.values(), "<s>", "</s>"}
    return [
        [(" ".join(w for w in map(words.__getitem__, tokens) if w not in unprinted), score)
         for tokens, score in best]
        for best in found
    ]  # fmt: skip


def printed(output):
    """The texts and base-2 scores of H- lines by sentence."""
    found = {}
    for line in output.splitlines():
        if line.startswith("H-"):
            number, score, text = line.split("\t")
            own = found.setdefault(int(number[2:]), [])
            own.append((text, float(score) * torch.tensor(2.0).log().item()))
    return [found[number] for number in sorted(found)]


def assert_same(output, expected):
    own = printed(output)
    assert [[text for text, _ in best] for best in own] == [
        [text for text, _ in best] for best in expected
    ]
    for best, theirs in zip(own, expected):
        assert [score for _, score in best] == pytest.approx([s for _, s in theirs], abs=2e-4)


@pytest.mark.parametrize("decoding", ["fairseq", "beam"])
@pytest.mark.parametrize("format", ["NLLB", "mBART-25", "Opus-MT", "BART"])
def test_beams_are_those_of_a_reference(models, tmp_path, format, decoding):
    """fairseq-interactive with the stock search and with the plugin's."""
    output = command_line.interactive(
        models[format], models[format] / "checkpoint.pt", LINES, tmp_path,
        *options_of(format, *(("en", "de") if format == "BART" else ())),
        "--decoding", decoding, *BEAM,
    )  # fmt: skip
    expected = printed_by_hand(format)
    assert len({text for best in expected for text, _ in best}) > 3
    assert_same(output, expected)
    symbols = {*random_model(format).languages.values(), "<s>"}
    assert not symbols & set(" ".join(numbered("D", output).values()).split())


@pytest.mark.parametrize("way", ["compiled", "torch"])
@pytest.mark.parametrize("format", ["NLLB", "mBART-25", "Opus-MT"])
def test_greedy_decoding(models, data, format, way, request):
    """fairseq-generate, whose data have targets."""
    if way == "torch":
        request.getfixturevalue("nothing_compiled")
    output = command_line.generate(
        data, models[format] / "checkpoint.pt", *options_of(format),
        "--decoding", "greedy", "--max-len-a", 0, "--max-len-b", 9,
    )  # fmt: skip
    assert_same(output, printed_by_hand(format, beam=1, nbest=1))
    assert "T-0\tw4 w5" in output


@pytest.mark.parametrize("decoding", ["fairseq", "greedy", "beam"])
@pytest.mark.parametrize("format", ["NLLB", "mBART-25"])
@pytest.mark.parametrize("size", [1, 2])
def test_prefixes_of_targets(models, data, format, decoding, size):
    """The targets of NLLB-200 begin with the token of their language, which counts."""
    n_words = size - len(FORMATS[format][1].split()) + 1
    words = built(random_model(format))[1].source_dictionary
    prefixes = [[words.indices[w] for w in line.split()[:n_words]] for line in TARGETS]
    beam = 1 if decoding == "greedy" else 4
    output = command_line.generate(
        data, models[format] / "checkpoint.pt", *options_of(format), "--prefix-size", size,
        "--decoding", decoding, "--max-len-a", 0, "--max-len-b", 9,
        *(["--beam", 4, "--nbest", 2] if beam > 1 else []),
    )  # fmt: skip
    nbest = 1 if beam == 1 else 2
    assert_same(output, printed_by_hand(format, prefixes=prefixes, beam=beam, nbest=nbest))
    begun = hypotheses(output)
    assert all(begun[n].split()[:n_words] == TARGETS[n].split()[:n_words] for n in range(4))


def test_languages_that_the_model_does_not_have(models, data):
    path = models["NLLB"] / "checkpoint.pt"
    with pytest.raises(ValueError, match="^target zh: ambiguous; choose from zho_Hans, zho_Hant"):
        command_line.generate(data, path, *options_of("NLLB", target="zh"))


def test_iso_codes(models, tmp_path):
    model = models["NLLB"]
    outputs = [
        command_line.interactive(
            model, model / "checkpoint.pt", LINES, tmp_path, *options_of("NLLB", *pair),
            "--decoding", "greedy",
        )
        for pair in ((SOURCE, TARGET), ("en", "fr"))
    ]  # fmt: skip
    assert hypotheses(outputs[0]) == hypotheses(outputs[1])


# Training


@pytest.fixture(scope="module")
def corpus_of_pairs(models, tmp_path_factory):
    """Sentences to be copied, with the dictionary of all languages."""
    folder, draw = tmp_path_factory.mktemp("pairs"), torch.Generator().manual_seed(0)
    for split, size in (("train", 300), ("valid", 10), ("test", 20)):
        lines = [
            [f"w{n}" for n in torch.randint(8, (length,), generator=draw).tolist()]
            for length in torch.randint(1, 6, (size,), generator=draw).tolist()
        ]
        for language in (SOURCE, TARGET):
            write_words(folder / f"{split}.{language}", lines)
    command_line.preprocess(
        "-s", SOURCE, "-t", TARGET, "--srcdict", models["NLLB"] / "dict.all.txt",
        "--joined-dictionary", "--destdir", folder / "bin",
        *(word for split in ("train", "valid", "test")
          for word in (f"--{split}pref", folder / split)),
    )  # fmt: skip
    return folder / "bin"


def trained(data, directory, format, updates):
    command_line.train(
        data, directory, *options_of(format), "--arch", "transformer",
        "--criterion", "label_smoothed_cross_entropy", updates=updates, lr="1e-2",
    )  # fmt: skip
    return directory / "checkpoint_last.pt"


def test_training(corpus_of_pairs, tmp_path):
    path = trained(corpus_of_pairs, tmp_path, "NLLB", updates=150)
    state = torch.load(path, weights_only=True)
    assert state["cfg"]["task"]["target_format"] == "</s> {target}"
    output = command_line.generate(
        corpus_of_pairs, path, *options_of("NLLB"), "--decoding", "greedy"
    )
    lines = dict(line.split("\t", 1) for line in output.splitlines() if line.startswith("T-"))
    found = hypotheses(output)
    right = sum(found[int(name[2:])] == text for name, text in lines.items())
    assert right > len(lines) / 2
    scored = command_line.generate(corpus_of_pairs, path, *options_of("NLLB"), "--score-reference")
    scores = command_line.scores(scored)
    assert sum(scores.values()) / len(scores) > -1


@pytest.mark.parametrize("format", ["Opus-MT", "BART"])
def test_training_of_other_formats_begins(corpus_of_pairs, tmp_path, format):
    assert trained(corpus_of_pairs, tmp_path, format, updates=2).is_file()


def test_training_needs_eos_as_the_first_input(corpus_of_pairs, models, tmp_path):
    with pytest.raises(ValueError, match="^--target-format {target}: training needs </s> as the"):
        trained(corpus_of_pairs, tmp_path, "mBART-25", updates=1)
    path = models["mBART-25"] / "checkpoint.pt"
    with pytest.raises(ValueError, match="^--target-format {target}: --score-reference needs"):
        command_line.generate(corpus_of_pairs, path, *options_of("mBART-25"), "--score-reference")
