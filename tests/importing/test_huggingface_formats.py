"""How outputs begin, and the default languages."""

import pytest

from fairseq_fastdec.importing.fields import Fields
from fairseq_fastdec.importing.huggingface_formats import Format
from fairseq_fastdec.importing.huggingface_generation import Generation
from fairseq_fastdec.importing.imported import UnreadableModel
from fairseq_fastdec.importing.vocabularies import NumberedVocabulary

SYMBOLS = ["<s>", "<pad>", "</s>", "<unk>", "a", "de_DE", "en_XX", "fr_XX"]
TOKENS = {name: name for name in SYMBOLS[5:]}


def format_of(languages=TOKENS, start=2, forced=None, **options):
    vocabulary = NumberedVocabulary(SYMBOLS, SYMBOLS, {}, dict(languages), **options)
    return Format.of(vocabulary, Generation(Fields("path", {}), start, forced, False))


def test_languages_are_forced():
    found = format_of()
    assert (found.target_format, found.first_input) == ("</s> {target}", "eos")
    assert (found.source_lang, found.target_lang) == ("en_XX", "fr_XX")


@pytest.mark.parametrize("start", [None, 5])
def test_languages_are_the_first_input(start):
    found = format_of(start=start, starts_with_language=True)
    assert found.target_format == "{target}"
    assert found.target_lang == ("fr_XX" if start is None else "de_DE")


@pytest.mark.parametrize("forced, target", [(5, "de_DE"), (6, "en_XX"), (None, "fr_XX")])
def test_a_forced_language_is_the_target(forced, target):
    assert format_of(forced=forced).target_lang == target


def test_the_tokenizer_names_languages():
    found = format_of(source_lang="fr_XX", target_lang="en_XX")
    assert (found.source_lang, found.target_lang) == ("fr_XX", "en_XX")
    found = format_of(source_lang="xx", target_lang="yy")
    assert (found.source_lang, found.target_lang) == ("en_XX", "fr_XX")


def test_the_languages_of_a_pair_differ():
    assert format_of({"fr_XX": "fr_XX", "de_DE": "de_DE"}).target_lang == "de_DE"
    assert format_of({"en_XX": "en_XX"}).target_lang == "en_XX"


@pytest.mark.parametrize(
    "start, forced, expected, first_input",
    [
        (2, None, "</s>", "eos"),
        (1, None, "</s>", "pad"),
        (0, None, "<s>", "eos"),
        (2, 0, "</s> <s>", "eos"),
        (None, None, "</s>", "eos"),
    ],
)
def test_models_of_one_pair(start, forced, expected, first_input):
    found = format_of({}, start, forced, source_lang="en", target_lang="de")
    assert (found.target_format, found.first_input) == (expected, first_input)
    assert (found.source_lang, found.target_lang) == ("en", "de")


def test_models_of_several_targets():
    options = {"source_format": "{target} {text} </s>", "source_lang": "en", "target_lang": "xx"}
    found = format_of(start=1, **options)
    assert (found.target_format, found.first_input) == ("</s>", "pad")
    assert (found.source_lang, found.target_lang) == ("en", "fr_XX")


def test_types_that_the_model_lacks():
    with pytest.raises(UnreadableModel, match="forced_bos_token_id is None; the model has 8 types"):
        format_of(forced=8)
