"""Checkpoints whose parameters are changed before a model begins with them."""

from pathlib import Path
from typing import Any, Callable, Dict

import torch

State = Dict[str, torch.Tensor]

LAYERS = "decoder.layers."


def rewrite(source: Path, destination: Path, change: Callable[[State], State]) -> None:
    """A checkpoint with other parameters, in fp32."""
    if destination.exists():
        return
    checkpoint = torch.load(source, map_location="cpu", weights_only=True)
    state = change({name: value.float() for name, value in checkpoint["model"].items()})
    _record(checkpoint, decoder_layers=1 + _last_layer(state))
    torch.save({**checkpoint, "model": state}, destination)


def deepened(state: State, n_layers: int) -> State:
    """With more decoder layers, which change nothing yet: copies of the last whose outputs are 0.

    That takes layers that normalise their inputs.
    """
    last = _last_layer(state)
    own = [name for name in state if name.startswith(f"{LAYERS}{last}.")]
    for layer in range(last + 1, n_layers):
        for name in own:
            part = name.removeprefix(f"{LAYERS}{last}.")
            is_output = ".out_proj." in f".{part}" or part.startswith("fc2.")
            value = state[name]
            state[f"{LAYERS}{layer}.{part}"] = torch.zeros_like(value) if is_output else value
    return state


def _last_layer(state: State) -> int:
    return max(int(name.split(".")[2]) for name in state if name.startswith(LAYERS))


def _record(checkpoint: Dict[str, Any], **options: int) -> None:
    """Let the checkpoint say what its model is now: --finetune-from-model compares."""
    for kept in (checkpoint.get("args"), (checkpoint.get("cfg") or {}).get("model")):
        if kept is not None:
            (kept if isinstance(kept, dict) else vars(kept)).update(options)
