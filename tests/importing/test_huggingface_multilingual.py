"""The vocabularies of M2M-100, NLLB-200 and mBART are those of their tokenizers."""

import pytest

from fairseq_fastdec.importing import huggingface, published_languages
from fairseq_fastdec.importing.fields import Fields
from fairseq_fastdec.importing.huggingface_multilingual import read_multilingual
from tests.support import huggingface as tiny
from tests.support import skips

TEXT = "Open the file in LibreOffice Writer ©."
CLASSES = {
    "m2m_100": ("M2M100Tokenizer", "en", "fr"),
    "nllb": ("NllbTokenizer", "eng_Latn", "fra_Latn"),
    "mbart": ("MBartTokenizer", "en_XX", "fr_XX"),
    "mbart_50": ("MBart50Tokenizer", "en_XX", "fr_XX"),
}


def written(directory, kind, **config):
    """Write the files of a tokenizer, and read its vocabulary."""
    values = tiny.KINDS[kind].write(directory)
    model_type = "m2m_100" if kind in ("m2m_100", "nllb") else "mbart"
    values = {"model_type": model_type, **values, **config}
    return read_multilingual(directory, Fields(directory / "config.json", values))


def opened(name, directory, **options):
    """A tokenizer of transformers."""
    skips.needs("google.protobuf")
    (tokenizer_class,) = tiny.transformers(name)
    return tokenizer_class.from_pretrained(directory, **options)


@pytest.mark.parametrize("kind", CLASSES)
def test_the_model_is_read_with_its_languages(tmp_path, kind):
    tiny.save(tmp_path, kind)
    imported = huggingface.read(tmp_path)
    name, source, target = CLASSES[kind]
    assert (imported.source_lang, imported.target_lang) == (source, target)
    assert imported.source[:4] == tiny.SPECIAL
    assert imported.source == imported.target
    assert list(imported.files) == ["sentencepiece.bpe.model"]
    options = {} if kind != "nllb" else {"extra_special_tokens": published_languages.NLLB_200}
    tokenizer = opened(name, tmp_path, src_lang=source, **options)
    ids = tokenizer(TEXT)["input_ids"]
    ours = tiny.encoded(imported, TEXT, tmp_path)
    if kind == "nllb":
        # transformers 5 adds the languages after <mask>; published files number them.
        language = tokenizer.convert_tokens_to_ids(source)
        ids = [imported.source.index(source) if n == language else n for n in ids]
    assert ours == ids


@pytest.mark.parametrize("kind", ["mbart", "mbart_50"])
def test_numbers_are_those_of_the_tokenizer(tmp_path, kind):
    vocabulary = written(tmp_path, kind)
    tokenizer = opened(CLASSES[kind][0], tmp_path)
    assert vocabulary.source == tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    languages = tokenizer.lang_code_to_id
    assert {vocabulary.source.index(symbol): name for name, symbol in vocabulary.languages.items()}
    assert set(vocabulary.languages) == set(languages)


def test_numbers_of_m2m_100(tmp_path):
    vocabulary = written(tmp_path, "m2m_100")
    tokenizer = opened("M2M100Tokenizer", tmp_path)
    n_known = len(vocabulary.source) - 8
    assert vocabulary.source[:n_known] == tokenizer.convert_ids_to_tokens(range(n_known))
    assert vocabulary.source[n_known:] == [f"madeupword{n:04d}" for n in range(8)]
    assert vocabulary.languages == {code: f"__{code}__" for code in published_languages.M2M_100}


def test_languages_of_wmt_21(tmp_path):
    tiny.write_json(tmp_path / "tokenizer_config.json", {"language_codes": "wmt21"})
    vocabulary = written(tmp_path, "m2m_100")
    assert list(vocabulary.languages) == published_languages.WMT_21


def test_numbers_of_languages_are_those_of_files(tmp_path):
    """transformers 5 saves them in tokenizer.json, in another order than published models."""
    languages = ["fra_Latn", "xxx_Latn", "eng_Latn"]
    written(tmp_path, "nllb")
    tokenizer = opened("NllbTokenizer", tmp_path, extra_special_tokens=languages)
    vocab = tmp_path / "sentencepiece.bpe.model"
    content = vocab.read_bytes()
    tokenizer.save_pretrained(tmp_path)
    vocab.write_bytes(content)
    config = {"model_type": "m2m_100", "vocab_size": len(tokenizer)}
    vocabulary = read_multilingual(tmp_path, Fields(tmp_path, config))
    assert vocabulary.source == tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    assert list(vocabulary.languages) == languages


@pytest.mark.parametrize("name", ["tokenizer_config.json", "added_tokens.json"])
def test_other_files_that_number_languages(tmp_path, name):
    first = len(written(tmp_path, "nllb").source) - 205
    numbers = {"eng_Latn": first, "xxx_Latn": first + 2, "<mask>": first + 1}
    content = numbers
    if name == "tokenizer_config.json":
        decoder = {str(number): {"content": symbol} for symbol, number in numbers.items()}
        content = {"added_tokens_decoder": decoder}
    tiny.write_json(tmp_path / name, content)
    config = {"model_type": "m2m_100", "vocab_size": first + 4}
    vocabulary = read_multilingual(tmp_path, Fields(tmp_path, config))
    expected = ["eng_Latn", "<mask>", "xxx_Latn", "madeupword0000"]
    assert vocabulary.source[first:] == expected
    assert list(vocabulary.languages) == ["eng_Latn", "xxx_Latn"]


@pytest.mark.parametrize("are_few", [True, False])
def test_languages_that_are_listed_without_numbers(tmp_path, are_few):
    tokens = ["eng_Latn", {"content": "xxx_Latn"}, "<other>"]
    tiny.write_json(tmp_path / "special_tokens_map.json", {"additional_special_tokens": tokens})
    size = len(written(tmp_path, "nllb").source)
    vocabulary = written(tmp_path, "nllb", vocab_size=size - 200 if are_few else size)
    if are_few:
        assert vocabulary.source[-5:-2] == ["eng_Latn", "xxx_Latn", "<mask>"]
    else:
        assert vocabulary.source[-3:] == ["<mask>", "xxx_Latn", "madeupword0000"]
        assert list(vocabulary.languages) == [*published_languages.NLLB_200, "xxx_Latn"]


def test_published_order_of_nllb(tmp_path):
    vocabulary = written(tmp_path, "nllb")
    first = len(vocabulary.source) - 205
    assert vocabulary.source[first : first + 202] == published_languages.NLLB_200
    assert vocabulary.source[first + 202 :] == ["<mask>", "madeupword0000", "madeupword0001"]


def test_sources_of_the_first_nllb_end_with_the_language(tmp_path):
    tiny.save(tmp_path, "nllb")
    tiny.changed(tmp_path / "tokenizer_config.json", legacy_behaviour=True)
    imported = huggingface.read(tmp_path)
    languages = published_languages.NLLB_200
    tokenizer = opened("NllbTokenizer", tmp_path, extra_special_tokens=languages)
    numbers = tokenizer("Open it")["input_ids"]
    assert tokenizer.convert_ids_to_tokens(numbers)[-2:] == ["</s>", "eng_Latn"]
    ours = tiny.encoded(imported, "Open it", tmp_path)
    assert [imported.source[number] for number in ours[-2:]] == ["</s>", "eng_Latn"]


@pytest.mark.parametrize("kind", CLASSES)
def test_the_tokenizer_is_recognised_without_its_name(tmp_path, kind):
    named = written(tmp_path, kind)
    (tmp_path / "tokenizer_config.json").unlink(missing_ok=True)
    config = {"model_type": "mbart" if "mbart" in kind else "m2m_100"}
    fields = Fields(tmp_path, {**config, "vocab_size": len(named.source)})
    assert read_multilingual(tmp_path, fields) == named


def test_a_missing_sentencepiece_model(tmp_path):
    written(tmp_path, "nllb")
    (tmp_path / "sentencepiece.bpe.model").unlink()
    config = Fields(tmp_path, {"model_type": "m2m_100", "vocab_size": 500})
    with pytest.raises(FileNotFoundError, match=r"sentencepiece\.bpe\.model: No such file"):
        read_multilingual(tmp_path, config)
