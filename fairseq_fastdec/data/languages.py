"""The languages of binarised data."""

import argparse

from fairseq import utils
from fairseq.data import data_utils


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
        raise ValueError(
            f"{data}: holds no binarised data that name the languages; give -s and -t, or name a "
            "directory of fairseq-preprocess"
        )
    args.source_lang, args.target_lang = found
