"""fairseq-generate prints the same with the plugin as without, for models of many shapes.

Tokens and scores are compared: of greedy decoding and of all hypotheses of beams, in batches, with
forced prefixes and in ensembles. The other tasks have their own tests, in test_fast_decoding.py.
"""

import contextlib
import functools
import io
import itertools

import pytest
from fairseq import options as fairseq_options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli import generate as generate_cli

from tests.support import command_line, shapes, tiny
from tests.support.other_tasks import assert_same
from tests.support.trained_models import TASK
from tests.support.words import write_words

LENGTHS = [3, 9, 5, 7, 1, 8, 4, 6, 9, 2]
# Each shape is in one of them.
ENSEMBLES = [shapes.OF_COMMANDS[first::8] for first in range(8)]


@pytest.fixture(scope="session")
def data(made):
    """Sentences of the models' words, and the same reversed."""
    words = TASK.source_dictionary

    def write(place):
        batch = tiny.random_batch(TASK, LENGTHS, seed=5)
        texts = [words.string(own[own != words.pad()]).split() for own in batch["target"]]
        write_words(place / "test.en", texts)
        write_words(place / "test.de", [text[::-1] for text in texts])
        words.save(str(place / "words.txt"))
        command_line.preprocess(
            "-s", "en", "-t", "de", "--joined-dictionary", "--srcdict", place / "words.txt",
            "--testpref", place / "test", "--destdir", place / "bin",
        )  # fmt: skip

    return made("truth", write) / "bin"


@pytest.fixture(scope="session")
def checkpoint(made):
    """A function from the name of a shape to a file."""

    def path_of(name):
        place = made(
            f"shape {name}", lambda place: shapes.write_checkpoint(name, place / "checkpoint.pt")
        )
        return place / "checkpoint.pt"

    return path_of


@functools.cache
def configuration(data, task, *options):
    """What fairseq-generate makes of its command line, which takes it longer than to decode."""
    parser = fairseq_options.get_generation_parser()
    words = [data, *command_line.COMMON, "--path", "", "--task", task, "--num-workers", 0]
    words += ["--max-len-a", 1.2, "--max-len-b", 4, *options]
    args = fairseq_options.parse_args_and_arch(parser, [str(word) for word in words])
    return convert_namespace_to_omegaconf(args)


def printed(data, paths, task, *options):
    cfg = configuration(data, task, *options)
    cfg.common_eval.path = ":".join(map(str, paths))
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        generate_cli.main(cfg)
    return output.getvalue()


def assert_truth(data, paths, decoding, *options):
    """Ours is fairseq's, and says something."""
    theirs = printed(data, paths, "translation", *options)
    texts = command_line.hypotheses(theirs)
    assert len(texts) == len(LENGTHS) and len(set(texts.values())) > len(LENGTHS) // 2
    assert_same(printed(data, paths, "translation", *options, "--decoding", decoding), theirs)


def test_there_are_many():
    assert len(shapes.OF_COMMANDS) > 20
    assert sorted(itertools.chain(*ENSEMBLES)) == sorted(shapes.OF_COMMANDS)
    assert min(map(len, ENSEMBLES)) > 1


@pytest.mark.parametrize("name", shapes.OF_COMMANDS)
def test_one_model(name, data, checkpoint):
    paths = [checkpoint(name)]
    assert_truth(data, paths, "greedy", "--beam", 1, "--batch-size", 4)
    beams = ["--beam", 4, "--nbest", 4, "--lenpen", 0.8, "--min-len", 2, "--max-tokens", 40]
    assert_truth(data, paths, "beam", *beams)


@pytest.mark.parametrize("names", ENSEMBLES, ids=lambda names: names[0])
def test_ensembles_and_prefixes(names, data, checkpoint):
    paths = [checkpoint(name) for name in names]
    forced = ["--prefix-size", 2, "--batch-size", 5]
    assert_truth(data, paths, "greedy", "--beam", 1, *forced)
    assert_truth(data, paths, "beam", "--beam", 3, "--nbest", 3, *forced)
