"""Trains tiny models of transformers for a minute, English to German, on LibreOffice's help."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from examples.common import commands
from examples.common.en_de import training_lines
from examples.common.huggingface import KINDS, deep, new_model, start_of, tokenizer_of

TINY = deep(layers=2, dim=128, ffn=256, heads=4)
PIECES = 1000
MOST_TOKENS = 24
BATCH = 32
RATE, WARM_UP = 2e-3, 40


def train(name: str, directory: Path, updates: int) -> None:
    """Write a trained model with its tokenizer, unless it exists.

    Args:
        name: a key of :data:`~examples.common.huggingface.KINDS`.
    """
    if commands.finished(directory):
        return
    english, german = training_lines("en"), training_lines("de")
    # Every fifth line is enough for the tokenizer.
    model = new_model(name, directory, english[::5], german[::5], PIECES, **TINY, dropout=0.0)
    tokenizer = tokenizer_of(name, directory)
    start, eos = start_of(name, model, tokenizer), model.config.eos_token_id
    sources = tokenizer(english)["input_ids"]
    pieces = tokenizer(text_target=german, add_special_tokens=False)["input_ids"]
    targets = [start.around(own, eos) for own in pieces]
    pairs = [
        (torch.tensor(source), torch.tensor(target))
        for source, target in zip(sources, targets)
        if max(len(source), len(target)) <= MOST_TOKENS
    ]
    _optimise(model, pairs, updates)
    model.save_pretrained(directory)
    commands.mark_finished(directory)


def _optimise(model: Any, pairs: list[tuple[torch.Tensor, torch.Tensor]], updates: int) -> None:
    """Train with a learning rate that falls to 0."""
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.98))
    model.train()
    batches = _batches(pairs, model.config.pad_token_id)
    for step in range(updates):
        share = min((step + 1) / WARM_UP, (updates - step) / max(1, updates - WARM_UP))
        for group in optimizer.param_groups:
            group["lr"] = RATE * share
        loss = model(**next(batches)).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if (step + 1) % 50 == 0:
            print(f"  update {step + 1}, loss {loss.item():.2f}", flush=True)
    model.eval()


def _batches(
    pairs: list[tuple[torch.Tensor, torch.Tensor]], pad: int
) -> Iterator[dict[str, torch.Tensor]]:
    """Yield batches of sentences of similar length, without end."""
    draw = random.Random(0)
    pairs = sorted(pairs, key=lambda pair: len(pair[1]))
    starts = list(range(0, len(pairs) - BATCH, BATCH))
    while True:
        draw.shuffle(starts)
        for first in starts:
            sources, targets = zip(*pairs[first : first + BATCH])
            masks = [torch.ones_like(source) for source in sources]
            yield {
                "input_ids": pad_sequence(sources, True, pad),
                "attention_mask": pad_sequence(masks, True, 0),
                "decoder_input_ids": pad_sequence([own[:-1] for own in targets], True, pad),
                # Not for positions with this label.
                "labels": pad_sequence([own[1:] for own in targets], True, -100),
            }


def opened(name: str, directory: Path) -> tuple[Any, Any]:
    """A model and its tokenizer."""
    from examples.common.huggingface import transformers

    (model_class,) = transformers(KINDS[name].model)
    return model_class.from_pretrained(directory).eval(), tokenizer_of(name, directory)
