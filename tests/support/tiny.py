"""Tiny dictionaries, tasks, models and batches, and training of models."""

import argparse
from typing import Any, Optional

import fairseq
import torch
from fairseq.data import Dictionary
from fairseq.data.language_pair_dataset import LanguagePairDataset
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.tasks.translation import TranslationConfig, TranslationTask

import fairseq_fastdec  # noqa: F401
from fairseq_fastdec.orders.reordered_dataset import FOLDED, ReorderedDataset
from fairseq_fastdec.tasks.translation_double_token import (
    TranslationDoubleTokenConfig,
    TranslationDoubleTokenTask,
)

# 0.12.2 gives every encoder layer a second, unused set of weights (for torch's fast path), and its
# decoders return NaN for left padding.
OLD_FAIRSEQ = fairseq.__version__ == "0.12.2"

SIZES = dict(
    encoder_embed_dim=32,
    decoder_embed_dim=32,
    encoder_ffn_embed_dim=64,
    decoder_ffn_embed_dim=64,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    dropout=0.0,
    max_source_positions=64,
    max_target_positions=64,
)


def dictionary(n_words: int) -> Dictionary:
    """Symbols w0, w1, ... after fairseq's special ones."""
    words = Dictionary()
    for index in range(n_words):
        words.add_symbol(f"w{index}")
    return words


def task(
    source_words: int = 20, target_words: Optional[int] = None, **options_: Any
) -> TranslationTask:
    """A translation task without data; one joined dictionary unless ``target_words`` is given."""
    source = dictionary(source_words)
    target = source if target_words is None else dictionary(target_words)
    return TranslationTask(TranslationConfig(**options_), source, target)


def double_token_task(
    token_order: str = "bidirectional",
    tokens_per_step: int = 2,
    source_words: int = 20,
    target_words: Optional[int] = None,
    **options_: Any,
) -> TranslationDoubleTokenTask:
    """As :func:`task`, with targets in another order."""
    source = dictionary(source_words)
    target = source if target_words is None else dictionary(target_words)
    config = TranslationDoubleTokenConfig(
        token_order=token_order, tokens_per_step=tokens_per_step, **options_
    )
    return TranslationDoubleTokenTask(config, source, target)


def build_model(
    of_task: TranslationTask,
    arch: str = "transformer",
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    **overrides: Any,
) -> torch.nn.Module:
    """Build a model of any registered architecture, tiny by default, in evaluation mode."""
    torch.manual_seed(seed)
    model = ARCH_MODEL_REGISTRY[arch].build_model(arguments(arch, **overrides), of_task)
    return model.to(dtype).eval()


def arguments(arch: str, **overrides: Any) -> argparse.Namespace:
    """The options of a model, tiny by default."""
    # As fairseq-train does, so that flags have the defaults of the architecture.
    parser = argparse.ArgumentParser(allow_abbrev=False, argument_default=argparse.SUPPRESS)
    ARCH_MODEL_REGISTRY[arch].add_args(parser)
    args = argparse.Namespace(arch=arch, **{**SIZES, **overrides})
    for action in parser._actions:
        if action.default not in (None, argparse.SUPPRESS) and not hasattr(args, action.dest):
            setattr(args, action.dest, action.default)
    ARCH_CONFIG_REGISTRY[arch](args)
    return args


def stir(model: torch.nn.Module, seed: int = 1, scale: float = 0.3) -> torch.nn.Module:
    """Add noise to every parameter, including norms, biases and heads that are initially zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator).to(parameter.dtype)
            parameter += scale * noise / max(parameter.size(-1), 1) ** 0.5
    return model


def random_batch(
    of_task: TranslationTask,
    lengths: list[int],
    left_pad: bool = True,
    seed: int = 0,
    reverse: bool = False,
) -> dict[str, Any]:
    """A batch in fairseq's format; the target is the source or the reversed source.

    Sentences keep the order of ``lengths`` (words without EOS), unlike in fairseq's batches.
    """
    generator = torch.Generator().manual_seed(seed)
    words = of_task.source_dictionary
    n_words = min(_n_words(words), _n_words(of_task.target_dictionary))
    pairs = []
    for length in lengths:
        content = torch.randint(n_words, (length,), generator=generator) + words.nspecial
        eos = torch.tensor([words.eos()])
        target = content.flip(0) if reverse else content
        pairs.append((torch.cat([content, eos]), torch.cat([target, eos])))
    dataset = LanguagePairDataset(
        [source for source, _ in pairs],
        [len(source) for source, _ in pairs],
        words,
        [target for _, target in pairs],
        [len(target) for _, target in pairs],
        of_task.target_dictionary,
        left_pad_source=left_pad,
        shuffle=False,
    )
    if getattr(of_task, "token_order", None) is not None:
        dataset = ReorderedDataset(dataset, of_task.token_order, of_task.target_dictionary)
    batch = dataset.collater([dataset[index] for index in range(len(pairs))])
    return _in_given_order(batch)


def _n_words(words: Dictionary) -> int:
    return sum(symbol.startswith("w") for symbol in words.symbols)


def _in_given_order(batch: dict[str, Any]) -> dict[str, Any]:
    # fairseq's collater sorts by length.
    order = batch["id"].argsort()
    for key in ("src_tokens", "src_lengths", "prev_output_tokens"):
        batch["net_input"][key] = batch["net_input"][key][order]
    for key in ("target", "id", FOLDED):
        if key in batch:
            batch[key] = batch[key][order]
    return batch


def train(
    model: torch.nn.Module,
    of_task: TranslationTask,
    updates: int,
    reverse: bool = False,
    loss_of: Any = None,
    lr: float = 3e-3,
) -> torch.nn.Module:
    """Train with Adam to copy or to reverse.

    Args:
        loss_of: a function of the model and a batch; default: cross entropy of ``model(...)``.
    """
    torch.manual_seed(0)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=lr)
    model.train()
    for update in range(updates):
        lengths = torch.randint(1, 10, (16,)).tolist()
        batch = random_batch(of_task, lengths, seed=update + 1000, reverse=reverse)
        loss = (loss_of or _cross_entropy)(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def _cross_entropy(model: torch.nn.Module, batch: dict[str, Any]) -> torch.Tensor:
    logits = model(**batch["net_input"])[0]
    target = batch.get(FOLDED, batch["target"])
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=1)
