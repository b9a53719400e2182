"""The languages of binarised data."""

import argparse

from fairseq import utils
from fairseq.data import data_utils


def infer_languages(args: argparse.Namespace) -> None:
    """Infer the languages from the data if the command line does not name them.

    Tasks infer them, too, but later than ``--tokenizer moses`` needs them.

    Raises:
        OSError: if the data directory cannot be read.
        ValueError: if its file names do not contain languages.
    """
    if None not in (args.source_lang, args.target_lang):
        return
    data = utils.split_paths(args.data)[0]
    found = data_utils.infer_language_pair(data)
    if None in found:
        raise ValueError(
            f"{data}: has no binarised data with languages in the file names; give -s and -t, or "
            "the output directory of fairseq-preprocess"
        )
    args.source_lang, args.target_lang = found
