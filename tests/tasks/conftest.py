"""A trained model of each of fairseq's other tasks."""

import pytest

from tests.support import other_tasks
from tests.support.command_line import TINY
from tests.support.other_tasks import Trained, binarised, spoken, train

PAIRS = {"xx-yy": list, "xx-zz": lambda words: words[::-1]}
LANGUAGES = ["--lang-pairs", "xx-yy,xx-zz", "--encoder-langtok", "tgt", "--decoder-langtok"]
UPDATES = 120


@pytest.fixture(scope="session")
def languages(tmp_path_factory):
    """Two languages that one source is translated to, in opposite orders."""
    return binarised(tmp_path_factory.mktemp("languages"), PAIRS)


@pytest.fixture(scope="session")
def many_to_many(languages, tmp_path_factory):
    """As M2M-100: the language is said in both source and target."""
    task = "translation_multi_simple_epoch"
    paths = train(
        languages, tmp_path_factory.mktemp("multi"), task, "--arch", "transformer", *LANGUAGES,
        updates=UPDATES,
    )  # fmt: skip
    return Trained(task, languages, paths, [*LANGUAGES, "-s", "xx", "-t", "yy"])


@pytest.fixture(scope="session")
def multilingual(languages, tmp_path_factory):
    """A model for each pair, of which most is shared."""
    task = "multilingual_translation"
    paths = train(
        languages, tmp_path_factory.mktemp("multilingual"), task,
        "--arch", "multilingual_transformer", "--share-encoders", "--share-decoders", *LANGUAGES,
        updates=UPDATES // 2,
    )  # fmt: skip
    return Trained(task, languages, paths, [*LANGUAGES, "-s", "xx", "-t", "zz"])


@pytest.fixture(scope="session")
def mbart(languages, tmp_path_factory):
    """Sentences end with the token of their language."""
    task, options = "translation_from_pretrained_bart", ["--langs", "xx,yy", "-s", "xx", "-t", "yy"]
    paths = train(
        languages, tmp_path_factory.mktemp("mbart"), task, "--arch", "mbart_base", *options,
        "--attention-dropout", 0, updates=3 * UPDATES // 2,
    )  # fmt: skip
    return Trained(task, languages, paths, options)


@pytest.fixture(scope="session")
def bart(tmp_path_factory):
    """As BART's summaries: every text begins with <s>."""
    data = binarised(tmp_path_factory.mktemp("texts"), {"xx-yy": PAIRS["xx-yy"]}, first="<s> ")
    paths = train(
        data, tmp_path_factory.mktemp("bart"), "translation", "--arch", "bart_base",
        updates=UPDATES,
    )  # fmt: skip
    return Trained("translation", data, paths, [])


@pytest.fixture(scope="session")
def speech(tmp_path_factory):
    """A convolutional front end and a transformer."""
    data = spoken(tmp_path_factory.mktemp("speech"))
    paths = train(
        data, tmp_path_factory.mktemp("s2t"), "speech_to_text", "--arch", "s2t_transformer_xs",
        "--conv-channels", 32, "--max-tokens", 2000, updates=UPDATES // 2,
        sizes=[option for option in TINY if option != "--share-all-embeddings"],
    )  # fmt: skip
    return Trained("speech_to_text", data, paths, ["--max-tokens", 2000])


ALL = ["many_to_many", "multilingual", "mbart", "bart", "speech"]


@pytest.fixture(params=ALL)
def trained(request) -> Trained:
    """Each of them."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def greedy_of(request):
    """fairseq's own --beam 1 of each of them."""
    printed = {}

    def of(trained: Trained) -> str:
        if trained.task not in printed:
            printed[trained.task] = trained.stock("--beam", 1, "--batch-size", 8)
            other_tasks.assert_means_something(printed[trained.task])
        return printed[trained.task]

    return of
