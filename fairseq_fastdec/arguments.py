"""What the command lines of scripts share, where they take fairseq-generate's options."""

import argparse
from typing import Any, Dict, Tuple

from fairseq import utils
from fairseq.data import data_utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from .errors import errors_in_one_line  # noqa: F401  (command lines take it from here)


def positive(text: str) -> int:
    """A whole number of at least 1; argparse puts the flag before the message."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number of at least 1")
    return int(text)


def check_places(args: argparse.Namespace, places: Dict[str, Tuple[bool, str]]) -> None:
    """Refuse options of fairseq-generate that a script would not honour.

    Args:
        places: those of the script besides what no script honours: by flag, whether the option was
            given, and what to do instead.

    Raises:
        ValueError: for such an option; it names the flag.
    """
    remove = "remove it"
    common = {
        "--nbest": (args.nbest > 1, "remove it: the best hypothesis counts"),
        "--score-reference": (args.score_reference, remove),
        "--lm-path": (args.lm_path is not None, remove),
        "--replace-unk": (args.replace_unk is not None, remove),
        "--print-alignment": (args.print_alignment is not None, remove),
        "--constraints": (args.constraints is not None, remove),
    }
    for flag, (is_given, remedy) in {**common, **places}.items():
        if is_given:
            raise ValueError(f"{flag}: not possible here; {remedy}")


def check_one_directory(data: str, remedy: str) -> None:
    """
    Raises:
        ValueError: if these are several data directories, joined as fairseq has them.
    """
    if len(utils.split_paths(data)) > 1:
        raise ValueError(f"{data}: several data directories; {remedy}")


def to_config(args: argparse.Namespace) -> Any:
    """The configuration of a command line of fairseq-generate.

    Raises:
        OSError, ValueError: if there are no data to say which languages are meant.
    """
    infer_languages(args)
    return convert_namespace_to_omegaconf(args)


def infer_languages(args: argparse.Namespace) -> None:
    """Fill in the languages of a command line that names none, as tasks do only later.

    ``--tokenizer moses`` asks for them earlier.

    Raises:
        OSError: if the data directory cannot be read.
        ValueError: if the names of its files say no languages.
    """
    if None not in (args.source_lang, args.target_lang):
        return
    data = utils.split_paths(args.data)[0]
    found = data_utils.infer_language_pair(data)
    if None in found:
        raise ValueError(f"{data}: holds no binarised data; name a directory of fairseq-preprocess")
    args.source_lang, args.target_lang = found
