"""The configurations of tests/support/composed_once.py are those of Hydra."""

from unittest import mock

import pytest
from fairseq import options
from fairseq.dataclass import utils
from hydra.experimental import compose, initialize
from omegaconf import OmegaConf

TRAINING = [
    "data", "--arch", "transformer", "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)",
    "--lr", "3e-3", "--lr-scheduler", "inverse_sqrt", "--criterion", "label_smoothed_cross_entropy",
]  # fmt: skip


def generation(*words):
    parser = options.get_generation_parser()
    return options.parse_args_and_arch(parser, ["data", "--path", "a b.pt", *words])


def training(*words):
    parser = options.get_training_parser()
    return options.parse_args_and_arch(parser, [*TRAINING, *words])


@pytest.mark.parametrize(
    "parse, words, changed",
    [
        (generation, ["--task", "translation"], ["--beam", "3", "--cpu"]),
        (generation, ["--bpe", "subword_nmt"], ["--bpe-codes", "it's", "--lenpen", "0.5"]),
        (generation, ["--task", "translation"], ["--decoding", "greedy"]),
        (training, ["--task", "translation"], ["--share-all-embeddings", "--lr", "1e-3,2e-3"]),
        (training, ["--task", "translation"], ["--tensorboard-logdir", "x=y"]),
    ],
)
def test_the_configuration_is_hydras(parse, words, changed):
    lines = [words, [*words, *changed]]
    ours = [utils.convert_namespace_to_omegaconf(parse(*line)) for line in (*lines, words)]
    with (
        mock.patch.object(utils, "initialize", initialize),
        mock.patch.object(utils, "compose", compose),
    ):
        hydras = [utils.convert_namespace_to_omegaconf(parse(*line)) for line in lines]
    for own, expected in zip(ours, [*hydras, hydras[0]], strict=True):
        assert OmegaConf.to_container(own) == OmegaConf.to_container(expected)
        assert OmegaConf.is_struct(own)
