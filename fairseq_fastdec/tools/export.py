"""Writes a bundle, or a model of transformers: ``python -m fairseq_fastdec export``."""

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Optional

from fairseq import checkpoint_utils

from ..checkpoints.codec import TaskCodec, encodes_as_fairseq, looks_up_as_fairseq
from ..checkpoints.loading import load
from ..checkpoints.translator import MOST_POSITIONS, CheckpointTranslator
from ..checkpoints.whole_batches import stripped_by
from ..data.atomic_files import check_is_new
from ..data.model_files import (
    GPT2,
    SENTENCEPIECE,
    SUBWORD_NMT,
    beside_codes,
    bpe_of,
    checkpoints_of,
    files_beside,
    recorded_options,
)
from ..data.text import PathLike, check_is_not_read
from ..decoding import DecodingGenerator
from ..importing import to_huggingface
from ..packing.precision import PRECISIONS
from ..processes.errors import errors_in_one_line, flag_of
from ..processes.noise import results_only
from ..translating.bundle_file import write
from ..translating.command_line import (
    OWN_OPTIONS,
    add_lm_path,
    add_lm_weight,
    given,
    one_or_all,
    path_of,
    positive,
    program,
)
from ..translating.registry import any_joining

DESCRIPTION = """\
Write a model as one file, a bundle, which `fairseq_fastdec.load`, `translate` and `serve` accept in
place of a checkpoint. Decoding with a bundle needs neither torch nor fairseq, and its output is
that of the checkpoint with the same options. With --format huggingface, write a directory for
transformers.
"""
# The options of this command that calls can override.
OF_CALLS = ("beam", "lenpen", "max_len_a", "max_len_b")
# Those that only bundles have.
OF_BUNDLES = ("decoding", "engine_precision", "lm_path", "lm_weight")
# The names of BPE files beside an imported model.
USUAL_NAMES = {"sentencepiece": SENTENCEPIECE, "gpt2": GPT2}


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command."""
    name = program("export")
    parser = argparse.ArgumentParser(prog=name, description=DESCRIPTION)
    parser.add_argument(
        "checkpoint",
        nargs="+",
        metavar="PATH",
        help="a checkpoint, or a directory with one; several form an ensemble",
    )
    parser.add_argument(
        "--output", required=True, type=path_of, metavar="PATH", help="the bundle or the directory"
    )
    parser.add_argument(
        "--format",
        default="bundle",
        choices=["bundle", "huggingface"],
        help="huggingface: a directory for transformers (default: a bundle)",
    )
    parser.add_argument(
        "--data", metavar="DIR", help="the dictionaries (default: the checkpoint's)"
    )
    parser.add_argument("-s", "--source-lang", metavar="LANG")
    parser.add_argument("-t", "--target-lang", metavar="LANG")
    parser.add_argument("--bpe-codes", metavar="FILE", help="default: next to the checkpoint")
    parser.add_argument(
        "--tokenizer", default="auto", help="moses or none (default: moses if there are BPE codes)"
    )
    parser.add_argument(
        "--decoding", help="the method (default: greedy, or beam if --beam is given)"
    )
    parser.add_argument(
        "--engine-precision", choices=list(PRECISIONS), help="of a bundle (default: model)"
    )
    parser.add_argument("--beam", type=positive)
    parser.add_argument("--lenpen", type=float)
    parser.add_argument("--max-len-a", type=float)
    parser.add_argument("--max-len-b", type=int)
    add_lm_path(parser)
    add_lm_weight(parser)
    args = parser.parse_args(arguments)
    options = given(args, (*OF_BUNDLES, *OF_CALLS))
    with errors_in_one_line(name, spelling=OWN_OPTIONS), results_only():
        checkpoints = checkpoints_of(args.checkpoint)
        inputs = files_beside(checkpoints, args.data)
        check_is_not_read("--output", args.output, [*inputs, args.bpe_codes, args.lm_path])
        if args.lm_path is not None and not args.lm_weight:
            raise ValueError(f"--lm-path {args.lm_path}: needs a --lm-weight other than 0; give it")
        if args.format == "huggingface":
            check_for_huggingface(args, checkpoints)
        translator = load(
            one_or_all(args.checkpoint),
            args.data,
            args.source_lang,
            args.target_lang,
            tokenizer=None if args.tokenizer == "none" else args.tokenizer,
            bpe_codes=args.bpe_codes,
            **options,
        )
        if args.format == "huggingface":
            defaults = {**recorded_options(checkpoints[0]), **options}
            files = export_for_transformers(translator, checkpoints[0], args.output, defaults)
            written = ", ".join(files)
        else:
            export(translator, args.output)
            written = f"{args.output.stat().st_size / 1e6:.1f} MB"
    print(f"{args.output}: {written}")


def check_for_huggingface(args: argparse.Namespace, checkpoints: Sequence[str]) -> None:
    """
    Raises:
        ValueError: for several checkpoints, options of bundles, and a directory that is in use.
    """
    if len(checkpoints) > 1:
        raise ValueError(
            f"--format huggingface: writes one model, and {len(checkpoints)} are given"
        )
    for name in given(args, OF_BUNDLES):
        raise ValueError(f"{flag_of(name)}: is an option of bundles; remove it")
    check_is_new("--output", args.output)


def export_for_transformers(
    translator: CheckpointTranslator, checkpoint: str, directory: Path, defaults: Mapping[str, Any]
) -> list[str]:
    """Write the model of a translator as a directory of Hugging Face.

    Args:
        translator: loaded from the checkpoint; it has not decoded yet.
        defaults: see :func:`..importing.to_huggingface.export`.

    Returns:
        the names of the files

    Raises:
        OSError: if a file cannot be written.
        ValueError: for a model that no class of transformers can compute.
    """
    codec, paths = translator.codec, {}
    if codec.codes is not None:
        paths = {Path(path).name: path for path in beside_codes(codec.codes)}
        paths[USUAL_NAMES.get(bpe_of(codec.codes), SUBWORD_NMT)] = codec.codes
    return to_huggingface.export(
        checkpoint_utils.load_checkpoint_to_cpu(checkpoint)["cfg"].model,
        translator.models[0].state_dict(),
        to_huggingface.Dictionaries(codec.source, codec.target),
        {name: Path(path).read_bytes() for name, path in paths.items()},
        directory,
        translator.languages,
        translator.request({}).pair,
        defaults,
    )


def export(translator: Any, path: PathLike) -> None:
    """Write the models and options of a translator to a bundle.

    Args:
        translator: loaded from checkpoints by :func:`fairseq_fastdec.load`.

    Raises:
        ValueError: for a model, a task, an option or a tokeniser that bundles do not support.
    """
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    write(path, content_of(translator))


def content_of(translator: CheckpointTranslator) -> dict[str, Any]:
    """The content of a bundle for :func:`..translating.bundle_file.write`.

    Raises:
        ValueError: see :func:`export`.
    """
    usual, task = translator.request({}), translator.task
    generator, n_positions = translator.built(usual.decoding), translator.n_source or MOST_POSITIONS
    if not isinstance(generator, DecodingGenerator):
        raise ValueError(
            "--decoding fairseq: not supported by bundles; use a method of this package"
        )
    recipe = generator.recipe(n_positions)
    if recipe is None or generator.search is None:
        raise ValueError(
            f"--decoding {generator.name}: bundles do not support this method or its options; "
            f"use {any_joining()} without --sampling, with models that "
            "compiled code supports"
        )
    if translator.of_pair().start.changes_hypotheses:
        raise ValueError(
            f"{type(task).__name__}: changes translations after decoding, which bundles do not "
            "support"
        )
    before, behind, bos, prefix = _surroundings(translator)
    models = generator.search.parts(n_positions)
    if not all(part.is_language_model or "encoder" in part.arguments for part in models):
        raise ValueError("the encoder has no compiled code, which bundles need")
    methods = {generator.name: tuple(recipe.options)}
    if recipe.options.kind != "pairs":
        # Models of one token a step.
        beam = {"beam": 5, "max_candidates": None}
        methods = {"greedy": ("blocks", {}), "beam": ("beam", beam), **methods}
    return {
        "models": models,
        "method": generator.name,
        "most_beam": len(task.target_dictionary) - 1,
        "sources": (translator.n_source, before, behind),
        "stripped": sorted(stripped_by(generator)),
        "languages": tuple(usual.pair),
        "formats": None if translator.languages is None else asdict(translator.languages),
        "options": {"nbest": usual.nbest},
        "rules": {**asdict(recipe.rules), "never": tuple(recipe.rules.never)},
        "temperature": recipe.temperature,
        "bos": recipe.bos if bos is None else bos,
        "prefix": prefix,
        "shortlist": None if recipe.shortlist is None else recipe.shortlist.content(),
        "methods": methods,
        "text": _text(translator.codec, task),
    }


def _surroundings(
    translator: CheckpointTranslator,
) -> tuple[list[int], list[int], Optional[int], tuple[int, ...]]:
    """The tokens that the task adds before and after a source, and those that it forces.

    Raises:
        ValueError: if these depend on the source.
    """
    words, seen = translator.task.source_dictionary, set[Any]()
    for n in (1, 2, 5):
        source = [*[words.unk()] * n, words.eos()]
        start = translator.of_pair().start.of(source)
        tokens = start.source.tolist()
        places = [at for at in range(len(tokens)) if tokens[at : at + len(source)] == source]
        first = places[0] if places else None
        around = first if first is None else (*tokens[:first], None, *tokens[first + len(source) :])
        seen.add((around, start.bos, start.prefix))
    ((around, bos, prefix), *others) = seen
    if others or around is None:
        raise ValueError(
            f"{type(translator.task).__name__}: changes sources in a way that bundles do not "
            "support"
        )
    at = around.index(None)
    return list(around[:at]), list(around[at + 1 :]), bos, prefix


def _text(codec: TaskCodec, task: Any) -> dict[str, Any]:
    """The arguments of :func:`..translating.text.codec_of`.

    Raises:
        ValueError: for a task, a tokeniser or a BPE that bundles do not support.
    """
    dictionaries = (task.source_dictionary, task.target_dictionary)
    if not encodes_as_fairseq(task) or not all(map(looks_up_as_fairseq, dictionaries)):
        raise ValueError(f"{type(task).__name__}: reads text in a way that bundles do not support")
    source, target = (
        {
            "symbols": "\n".join(dictionary.symbols).encode("utf-8"),
            "bos": dictionary.bos(),
            "eos": dictionary.eos(),
            "unk": dictionary.unk(),
        }
        for dictionary in dictionaries
    )
    coders = _coders(codec.coders, codec.codes)
    of_target = None
    if codec.target_coders is not codec.coders:
        of_target = _coders(codec.target_coders, codec.target_codes)
    return {"source": source, "target": target, "coders": coders, "target_coders": of_target}


def _coders(given: Sequence[Any], codes: Optional[str]) -> list[tuple[str, dict[str, Any]]]:
    """The descriptions of a tokeniser and a BPE, whose file is ``codes``.

    Raises:
        ValueError: for those that bundles do not support.
    """
    coders: list[tuple[str, dict[str, Any]]] = []
    for coder in given:
        name = f"{type(coder).__module__}.{type(coder).__name__}"
        if coder is None:
            continue
        if name == "fairseq.data.encoders.moses_tokenizer.MosesTokenizer":
            config = coder.cfg
            arguments = {
                "source_lang": config.source_lang,
                "target_lang": config.target_lang,
                "dash_splits": not config.moses_no_dash_splits,
                "escape": not config.moses_no_escape,
            }
            coders.append(("Moses", arguments))
        elif name == "fairseq.data.encoders.subword_nmt_bpe.SubwordNMTBPE":
            separator = coder.bpe.separator
            coders.append(("SubwordNMT", {"codes": _bytes(codes), "separator": separator}))
        elif name == "fairseq.data.encoders.sentencepiece_bpe.SentencepieceBPE":
            coders.append(("SentencePiece", {"model": _bytes(codes)}))
        else:
            raise ValueError(
                f"{type(coder).__name__}: bundles support moses, subword_nmt and sentencepiece; "
                "set tokenizer and bpe to None, and translate tokens"
            )
    return coders


def _bytes(codes: Optional[str]) -> bytes:
    if codes is None:
        raise ValueError("bpe: bundles do not support objects; give bpe_codes=FILE")
    return Path(codes).read_bytes()
