"""Imports a model of another program: ``python -m fairseq_fastdec import``."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

from ..data.atomic_files import check_is_new
from ..processes.errors import errors_in_one_line
from ..processes.noise import results_only
from ..translating.command_line import OWN_OPTIONS, described, flags_of, path_of, program
from . import recognising

DESCRIPTION = """\
Write a model of another program as a checkpoint of fairseq, with its dictionaries and the files of
its BPE, which all commands accept:

    python -m fairseq_fastdec import opus-mt-en-de --destdir en-de
    python -m fairseq_fastdec translate en-de < text.en

MODEL is a directory of Hugging Face (MarianMT, M2M-100, NLLB-200, mBART, BART), or a file or
directory of Marian (.npz of Opus-MT, .bin of Firefox and Bergamot). Neither transformers nor Marian
is needed. The decoding options that a model is published with are written to generation.json, and
apply unless others are given.
"""


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command."""
    name = program("import")
    parser = argparse.ArgumentParser(allow_abbrev=False)
    described(parser, "import", DESCRIPTION)
    parser.add_argument("model", type=path_of, metavar="MODEL", help="a directory or a file")
    parser.add_argument(
        "--destdir", required=True, type=path_of, metavar="DIR", help="for the checkpoint"
    )
    args = parser.parse_args(arguments)
    with errors_in_one_line(name, spelling=OWN_OPTIONS), results_only():
        run(args.model, args.destdir)


def run(model: Path, destdir: Path) -> None:
    """Read a model, and write it.

    Raises:
        OSError: if a file is missing or cannot be written.
        ValueError: for a model that cannot be imported, and a directory that is in use.
    """
    check_is_new("--destdir", destdir)
    imported = recognising.read(model)
    # Imported here, since it needs torch and fairseq, which are slow to import.
    from .writing import write

    files = write(imported, destdir)
    languages = f"{imported.source_lang} to {imported.target_lang}"
    if imported.languages:
        languages = f"{len(imported.languages)} languages, by default {languages}"
    size = f"{imported.n_parameters / 1e6:.1f} M parameters"
    print(f"{destdir}: {languages}; {size}; {', '.join(files)}")
    for flag in flags_of(imported.defaults):
        print(f"  {flag}")
