"""Tiny data and models for fairseq's other tasks, trained with fairseq-train."""

import random
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.support import command_line
from tests.support.command_line import COMMON, hypotheses, run

LETTERS = "abcdefgh"
SPLITS = {"train": 400, "valid": 10, "test": 21}
N_FEATURES, FRAMES_PER_LETTER = 8, 6


class Trained(NamedTuple):
    """A task with data and a model.

    Attributes:
        task: fairseq's name of the task.
        data: the data directory for fairseq's commands.
        paths: of two checkpoints, the better one first.
        options: the task's options for fairseq-generate.
    """

    task: str
    data: Path
    paths: list[Path]
    options: list[Any]

    def command(self, cli: Any, task: str, *arguments: Any, members: int = 1) -> str:
        """Run a command with a task and an ensemble of ``members``, and return its output."""
        path = ":".join(str(path) for path in self.paths[:members])
        return run(
            cli, self.data, "--path", path, *COMMON, "--task", task, *self.options, *arguments
        )

    def stock(self, *arguments: Any, members: int = 1) -> str:
        """fairseq-generate without --decoding."""
        return self.command(
            command_line.generate_cli, self.task, "--num-workers", 0, *arguments, members=members
        )

    def fast(self, *arguments: Any, members: int = 1) -> str:
        """fairseq-generate with --decoding."""
        return self.stock(*arguments, members=members)


def sentences(split: str, seed: int = 0) -> list[list[str]]:
    """Random sentences of a split."""
    draw = random.Random(f"{split} {seed}")
    return [[draw.choice(LETTERS) for _ in range(draw.randint(1, 7))] for _ in range(SPLITS[split])]


def binarised(directory: Path, pairs: dict[str, Any], first: str = "") -> Path:
    """Create a data directory of language pairs such as ``xx-yy``, with one dictionary.

    Args:
        pairs: for each pair, a function from the words of a source to those of its target.
        first: text at the beginning of every sentence.
    """
    dictionary = None
    for pair, translate in pairs.items():
        source, target = pair.split("-")
        for split in SPLITS:
            lines = sentences(split)
            translations = [translate(line) for line in lines]
            for language, texts in ((source, lines), (target, translations)):
                text = "".join(f"{first}{' '.join(words)}\n" for words in texts)
                (directory / f"{split}.{pair}.{language}").write_text(text, encoding="utf-8")
        prefixes = [x for s in SPLITS for x in (f"--{s}pref", directory / f"{s}.{pair}")]
        given = [] if dictionary is None else ["--srcdict", dictionary]
        command_line.preprocess(
            "-s", source, "-t", target, "--joined-dictionary", *given,
            "--destdir", directory / "bin", *prefixes,
        )  # fmt: skip
        dictionary = directory / "bin" / f"dict.{source}.txt"
    return directory / "bin"


def spoken(directory: Path) -> Path:
    """Create speech data: letters as frames of noisy features."""
    noise = np.random.default_rng(0)
    symbols = "".join(f"{letter} 1\n" for letter in LETTERS)
    (directory / "dict.txt").write_text(symbols, encoding="utf-8")
    settings = (
        f"vocab_filename: dict.txt\ninput_feat_per_channel: {N_FEATURES}\n"
        "hub:\n  input_type: waveform\n"  # users of the hub pass frames directly
    )
    (directory / "config.yaml").write_text(settings, encoding="utf-8")
    for split in SPLITS:
        rows = ["id\taudio\tn_frames\ttgt_text"]
        for number, words in enumerate(sentences(split)):
            path = directory / f"{split}{number}.npy"
            letters = np.eye(N_FEATURES)[list(map(LETTERS.index, words))]
            frames = np.repeat(letters, FRAMES_PER_LETTER, axis=0)
            frames = frames + 0.1 * noise.standard_normal(frames.shape)
            np.save(path, frames.astype(np.float32))
            rows.append(f"{split}{number}\t{path}\t{len(frames)}\t{' '.join(words)}")
        (directory / f"{split}.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return directory


def train(data: Path, directory: Path, task: str, *arguments: Any, updates: int, **how) -> list:
    """Train with fairseq's task; return the paths of two checkpoints, the better one first."""
    command_line.train(
        data, directory, "--task", task, "--save-interval-updates", 37, "--save-interval", 1000,
        "--disable-validation", "--max-tokens", 200, *arguments, updates=updates, lr="5e-3", **how,
    )  # fmt: skip
    # At the end of an epoch, no such checkpoint is saved.
    earlier = sorted(directory.glob("checkpoint_*_*.pt"), key=lambda path: path.stat().st_mtime_ns)
    return [directory / "checkpoint_last.pt", earlier[len(earlier) // 2]]


def assert_same(ours: str, theirs: str, atol: float = 2e-4) -> None:
    """Check for the same hypotheses and scores, with all of --nbest."""
    assert hypotheses(ours) == hypotheses(theirs)
    own, expected = _by_text(ours), _by_text(theirs)
    assert own.keys() == expected.keys()
    assert max(abs(own[key] - score) for key, score in expected.items()) < atol


def _by_text(printed: str) -> dict[tuple[str, str], float]:
    """The scores of all hypotheses, by sentence and text."""
    lines = [line.split("\t") for line in printed.splitlines() if line.startswith("H-")]
    return {(number, text): float(score) for number, score, text in lines}


def assert_means_something(printed: str) -> None:
    """Check that outputs are complete and differ, so that comparing them is meaningful."""
    texts = list(hypotheses(printed).values())
    assert len(texts) == SPLITS["test"]
    assert len(set(texts)) > SPLITS["test"] // 3
    references = [line.split("\t")[1] for line in printed.splitlines() if line.startswith("T-")]
    assert len(references) == len(texts)
