"""Compares logits of random models of published sizes with those of transformers.

The models have up to 0.6 billion parameters in fp32. Each is written and read in separate processes
that end, and is deleted.
"""

import shutil
from argparse import Namespace
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from examples.common.huggingface import KINDS, new_model

LENGTHS = (7, 3, 11, 1)
N_OUTPUTS = 8
PIECES = 400


def compare(name: str, directory: Path) -> dict[str, Any]:
    """Write a random model of a published size, import it, compare, and delete it."""
    try:
        for step in (write, measured):
            with ProcessPoolExecutor(1, get_context("spawn")) as process:
                result = process.submit(step, name, directory).result()
        return result
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def write(name: str, directory: Path) -> None:
    """Write a model, and its logits of a ragged batch."""
    from examples.common.en_de import training_lines

    lines = (training_lines(language)[::50] for language in ("en", "de"))
    model = new_model(name, directory, *lines, PIECES, **KINDS[name].published)
    model.save_pretrained(directory)
    start = model.config.decoder_start_token_id
    batch = batch_of(model.config, 2 if start is None else start)
    mask = batch["sources"].ne(model.config.pad_token_id).long()
    with torch.no_grad():
        logits = model(batch["sources"], mask, batch["inputs"]).logits
    content = {**batch, "logits": logits, "pad": model.config.pad_token_id}
    torch.save(content, directory / "logits.tensors")


def batch_of(config: Any, start: int) -> dict[str, Tensor]:
    """Random sentences, padded on the right, in the numbers of transformers."""
    draw = torch.Generator().manual_seed(1)
    pad, eos = config.pad_token_id, config.eos_token_id

    def words(n: int) -> Tensor:
        found = torch.randint(4, config.vocab_size, (n,), generator=draw)
        return found.masked_fill(found == pad, 4)

    sources = [torch.cat([words(n), torch.tensor([eos])]) for n in LENGTHS]
    inputs = [torch.cat([torch.tensor([start]), words(N_OUTPUTS)]) for _ in LENGTHS]
    return {"sources": pad_sequence(sources, True, pad), "inputs": torch.stack(inputs)}


def measured(name: str, directory: Path) -> dict[str, Any]:
    """The largest difference of logits of the imported model."""
    from fairseq_fastdec.importing import building, recognising

    reference = torch.load(directory / "logits.tensors", weights_only=True)
    imported = recognising.read(directory)
    n_parameters = imported.n_parameters
    dictionary = building.dictionary_of(imported.source)
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    model = building.model_of(imported, building.options_of(imported), task)
    imported.state.clear()
    rows = rows_of(name, len(imported.source), reference["pad"])
    number = torch.full((len(rows),), dictionary.unk())
    number[rows[rows >= 0]] = torch.arange(len(rows))[rows >= 0]
    sources, inputs = number[reference["sources"]], number[reference["inputs"]]
    if name == "marian":
        # Its first input is padding, for which fairseq has EOS; the model embeds it as zeros.
        inputs[:, 0] = dictionary.eos()
    lengths = sources.ne(dictionary.pad()).sum(dim=1)
    with torch.no_grad():
        logits = model(sources, lengths, inputs)[0]
    known = rows >= 0
    known[dictionary.pad()] = False
    expected = reference["logits"][..., rows[known]]
    difference = (logits[..., known] - expected).abs().max().item()
    return {
        "parameters": n_parameters,
        "largest_difference": difference,
        "standard_deviation": expected.std().item(),
    }


def rows_of(name: str, size: int, pad: int) -> Tensor:
    """The numbers in transformers of fairseq's types; -1 for none.

    Args:
        size: the number of fairseq's types.
        pad: the number of padding in transformers.
    """
    if name != "marian":
        return torch.arange(size)
    # Marian has no <s>, and its </s> and <unk> are 0 and 1.
    words = [number for number in range(2, size - 1) if number != pad]
    return torch.tensor([-1, pad, 0, 1, *words])
