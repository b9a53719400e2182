"""Models of many languages: the pairs of calls, and sentences of all pairs in one running batch."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairseq_fastdec
from fairseq_fastdec.importing.building import dictionary_of
from fairseq_fastdec.tools.export import export
from fairseq_fastdec.translating.languages import Languages, Pair, chosen_pair
from tests.support.at_once import at_once
from tests.support.compiled import compiled, examples
from tests.support.imported_models import ARCHITECTURES, FORMATS, LANGUAGES, N_WORDS, written
from tests.support.together import together

TOKENS = {name: f"__{name}__" for name in LANGUAGES}
MANY = Languages(TOKENS, *FORMATS["NLLB"])
DICTIONARY = dictionary_of(["<s>", "<pad>", "</s>", "<unk>", "a", *TOKENS.values(), "</doc>"])
LINES = ["w1 w2 w3", "w5", "w7 w7 w1 w9 w4 w2", "w0 w19"]
PAIRS = [
    dict(source=source, target=target)
    for source, target in zip(LANGUAGES, (*LANGUAGES[1:], LANGUAGES[0]))
]


@pytest.mark.parametrize(
    "given, name",
    [
        ("deu_Latn", "deu_Latn"),
        ("de", "deu_Latn"),
        ("deu", "deu_Latn"),
        ("DEU-latn", "deu_Latn"),
        ("zh-Hant", "zho_Hant"),
        ("cmn_Hans", "zho_Hans"),
    ],
)
def test_names_of_languages(given, name):
    assert MANY.named(given, "target") == name


def test_a_spelling_is_preferred_to_a_code():
    own = Languages({"pt_BR": "a", "pt_PT": "b"})
    assert own.named("pt-br", "source") == "pt_BR"
    with pytest.raises(ValueError, match="^source pt: ambiguous; choose from pt_BR, pt_PT$"):
        own.named("pt", "source")


@pytest.mark.parametrize(
    "given, message",
    [
        ("zh", "^target zh: ambiguous; choose from zho_Hans, zho_Hant$"),
        ("fr_Cyrl", "^target fr_Cyrl: not a language of the model; choose from eng_Latn, deu_"),
        ("", "^target : not a language"),
        ("__deu_Latn__", "not a language"),
    ],
)
def test_other_languages(given, message):
    with pytest.raises(ValueError, match=message):
        MANY.pair("en", given)


def test_an_error_lists_some_of_many_languages():
    own = Languages({f"xx{number}": "a" for number in range(200)})
    with pytest.raises(ValueError, match="choose from xx0, xx1, .*, xx19 and 180 others$"):
        own.named("en", "source")


def test_sources_that_are_not_read():
    assert Languages(TOKENS, *FORMATS["Opus-MT"]).pair("any", "de") == Pair("any", "deu_Latn")
    with pytest.raises(ValueError, match="^source any: not a language"):
        Languages(TOKENS, *FORMATS["mBART-25"]).pair("any", "de")
    assert Languages().pair("en", "any") == Pair("en", "any")


# What the docstring of Languages lists, by symbols: before, behind, bos and prefix.
AROUND = {
    "NLLB": ("__eng_Latn__ | </s> | </s> | __deu_Latn__"),
    "mBART-25": ("| </s> __eng_Latn__ | __deu_Latn__ |"),
    "Opus-MT": ("__deu_Latn__ | </s> | </s> |"),
    "BART": ("<s> | </s> | </s> | <s>"),
    "one pair": ("| </s> | </s> |"),
}


@pytest.mark.parametrize("format", FORMATS)
def test_tokens_around_sentences(format):
    tokens = {} if format in ("BART", "one pair") else TOKENS
    pair = Pair("eng_Latn", "deu_Latn") if tokens else Pair("en", "de")
    found = Languages(tokens, *FORMATS[format]).surroundings(pair, DICTIONARY, DICTIONARY)
    before, behind, (bos,), prefix = (
        tuple(DICTIONARY.indices[symbol] for symbol in part.split())
        for part in AROUND[format].split("|")
    )
    assert found == (before, behind, bos, prefix)
    assert found.around([4, 4, 2]) == [*before, 4, 4, *behind]


def test_both_sides_can_name_both_languages():
    own = Languages(TOKENS, "{target} {source} {text} </doc>", "{source} {target} <s>")
    found = own.surroundings(Pair("eng_Latn", "fra_Latn"), DICTIONARY, DICTIONARY)
    english, french = (DICTIONARY.indices[TOKENS[name]] for name in ("eng_Latn", "fra_Latn"))
    assert found.before == (french, english)
    assert found.behind == (DICTIONARY.indices["</doc>"],)
    assert (found.bos, found.prefix) == (english, (french, DICTIONARY.bos()))


@pytest.mark.parametrize(
    "source_format, target_format, message",
    [
        ("</s>", "</s>", "^--source-format </s>: needs one {text}$"),
        ("{text} {text}", "</s>", "needs one {text}"),
        ("{text} nothing", "</s>", "^--source-format: the dictionary does not have 'nothing'$"),
        ("{text} </s>", "", "^--target-format: needs at least the decoder's first input$"),
        ("{text} </s>", "</s> {text}", "^--target-format: the dictionary does not have '{text}'$"),
    ],
)
def test_formats_that_are_wrong(source_format, target_format, message):
    own = Languages(TOKENS, source_format, target_format)
    with pytest.raises(ValueError, match=message):
        own.surroundings(Pair("eng_Latn", "deu_Latn"), DICTIONARY, DICTIONARY)


def test_a_pair_without_a_language():
    with pytest.raises(ValueError, match="^--source-format: the dictionary does not have 'the lan"):
        MANY.surroundings(Pair(None, "deu_Latn"), DICTIONARY, DICTIONARY)


def test_tokens_that_name_languages():
    assert MANY.symbols_of(DICTIONARY) == {DICTIONARY.indices[own] for own in TOKENS.values()}
    assert Languages({"xx": "nothing"}).symbols_of(DICTIONARY) == set()


USUAL = Pair("en", "de")


def test_the_pair_of_a_call():
    usual = Pair("eng_Latn", "deu_Latn")
    assert chosen_pair(MANY, usual, None, None) == usual
    assert chosen_pair(MANY, usual, None, "fr") == Pair("eng_Latn", "fra_Latn")
    assert chosen_pair(MANY, usual, "fr", None) == Pair("fra_Latn", "deu_Latn")
    for own in (None, Languages()):
        assert chosen_pair(own, USUAL, "en", "deu") == USUAL
        assert chosen_pair(own, Pair(None, None), "anything", None) == Pair(None, None)
        with pytest.raises(ValueError, match="^target fr: the model has de$"):
            chosen_pair(own, USUAL, None, "fr")


@pytest.mark.parametrize("language", [1, ["de"], b"de"])
def test_languages_that_are_no_names(language):
    with pytest.raises(ValueError, match="^source .*: must be the name of a language$"):
        chosen_pair(MANY, USUAL, language, None)


# Sentences of several pairs


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The translators of a checkpoint and of its bundle, by format and architecture."""
    known = {}

    def made(format="NLLB", arch="transformer"):
        if (format, arch) not in known:
            folder = written(tmp_path_factory.mktemp("many") / "model", format, arch)
            checkpoint = fairseq_fastdec.load(folder)
            export(checkpoint, folder / "model.fastdec")
            known[format, arch] = checkpoint, fairseq_fastdec.load(folder / "model.fastdec")
        return known[format, arch]

    yield made
    for translators in known.values():
        for translator in translators:
            translator.close()


@compiled
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("format", ["NLLB", "mBART-25", "Opus-MT"])
def test_one_running_batch_has_sentences_of_all_pairs(models, format, arch):
    for translator in models(format, arch):
        translator.schedule(threads=1, batch_size=64)
        calls = [(line, pair) for line in LINES for pair in PAIRS]
        expected = [translator.translate(line, **pair) for line, pair in calls]
        assert len(set(expected)) > len(LINES)
        assert together(translator, calls) == expected
        searches = {id(translator.job(line, pair).recipe.search) for line, pair in calls}
        assert len(searches) == 1


@compiled
@pytest.mark.parametrize("options", [{}, {"beam": 4}, {"beam": 3, "nbest": 2}])
def test_bundles_have_the_translations_of_checkpoints(models, options):
    checkpoint, bundle = models()
    assert (bundle.source_lang, bundle.target_lang) == ("eng_Latn", "deu_Latn")
    assert bundle.languages.tokens == checkpoint.languages.tokens == TOKENS
    for pair in PAIRS:
        call = {**pair, **options, "details": True}
        expected = [checkpoint.translate(line, **call) for line in LINES]
        assert [bundle.translate(line, **call) for line in LINES] == expected
        assert bundle.translate(LINES, **call) == expected
        if not options:
            # Whole batches round differently.
            texts = [found.text for found in checkpoint.translate(LINES, **call)]
            assert texts == [found.text for found in expected]
            assert not set(TOKENS.values()) & {word for own in expected for word in own.tokens}


@compiled
def test_streams_of_several_pairs_at_once(models):
    for translator in models():
        translator.schedule(threads=1, batch_size=8)
        expected = [[translator.translate(line, **pair) for line in LINES] for pair in PAIRS]

        def stream(pair, own=translator):
            return [found.text for _, found in own.translate_stream(LINES, **pair)]

        assert at_once(*(lambda pair=pair: stream(pair) for pair in PAIRS)) == expected


@compiled
def test_default_languages(models, tmp_path):
    checkpoint, bundle = models()
    folder = written(tmp_path / "model")
    expected = checkpoint.translate(LINES[0], source="fra_Latn", target="eng_Latn")
    assert expected != checkpoint.translate(LINES[0])
    own = fairseq_fastdec.load(folder, source_lang="fr", target_lang="en")
    assert (own.source_lang, own.target_lang) == ("fra_Latn", "eng_Latn")
    assert own.translate(LINES[0]) == expected
    own = fairseq_fastdec.load(folder, source="fr", target="en")
    assert own.translate(LINES[0]) == expected
    export(own, tmp_path / "french.fastdec")
    assert fairseq_fastdec.load(tmp_path / "french.fastdec").translate(LINES[0]) == expected
    export(checkpoint, tmp_path / "model.fastdec")
    own = fairseq_fastdec.load(tmp_path / "model.fastdec", source="fr", target="en")
    assert own.translate(LINES[0]) == expected
    assert own.translate(LINES[0], target="de") == checkpoint.translate(
        LINES[0], source="fr", target="de"
    )


@compiled
def test_languages_that_the_model_does_not_have(models):
    for translator in models():
        for call in (
            lambda: translator.translate(LINES[0], target="zh"),
            lambda: together(translator, [(LINES[0], {"target": "zh"})]),
            lambda: list(translator.translate_stream(LINES, target="zh")),
        ):
            with pytest.raises(ValueError, match="^target zh: ambiguous; choose from zho_Hans"):
                call()


WORDS = st.lists(st.integers(0, N_WORDS - 1), min_size=1, max_size=9)
CALLS = st.lists(
    st.tuples(
        WORDS.map(lambda words: " ".join(f"w{word}" for word in words)),
        st.sampled_from(LANGUAGES),
        st.sampled_from(LANGUAGES),
        st.sampled_from([{}, {"beam": 3}]),
    ),
    min_size=1,
    max_size=12,
)


@compiled
@settings(max_examples=examples(25))
@given(calls=CALLS, batch_size=st.integers(1, 12), is_bundle=st.booleans())
def test_a_sentence_is_translated_as_alone(models, calls, batch_size, is_bundle):
    translator = models()[is_bundle]
    translator.schedule(threads=1, batch_size=batch_size)
    given = [
        (line, {"source": source, "target": target, "details": True, **options})
        for line, source, target, options in calls
    ]
    alone = [translator.translate(line, **options) for line, options in given]
    assert together(translator, given) == alone
