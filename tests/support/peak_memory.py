"""Measures the memory of a process that only decodes.

``python -m tests.support.peak_memory CHECKPOINT PRECISION [--keep-model]`` prints MiB as JSON: the
size of the model's parameters, and the additional memory of the process: at its peak during
loading, after loading, at its peak during preparation and decoding, and at the end.
"""

import argparse
import json
import sys
from pathlib import Path

import torch
from fairseq import checkpoint_utils

from fairseq_fastdec.processes.memory import trim
from fairseq_fastdec.tasks.translation_fastdec import (
    TranslationFastdecConfig,
    TranslationFastdecTask,
)
from tests.support import tiny

SIZES = dict(
    encoder_embed_dim=512,
    decoder_embed_dim=512,
    encoder_ffn_embed_dim=2048,
    decoder_ffn_embed_dim=2048,
    encoder_layers=4,
    decoder_layers=4,
    encoder_attention_heads=8,
    decoder_attention_heads=8,
    max_source_positions=64,
    max_target_positions=64,
)
WORDS = 2000


def write_checkpoint(path: Path) -> None:
    """Write a random model of about 120 MiB, with Adam's state of twice the size."""
    task = tiny.task(WORDS)
    torch.manual_seed(0)
    model = tiny.build_model(task, **SIZES)
    moments = {index: p.detach().clone() for index, p in enumerate(model.parameters())}
    args = argparse.Namespace(arch="transformer", task="translation", **{**tiny.SIZES, **SIZES})
    history = {"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}}
    state = {
        "args": args,
        "model": model.state_dict(),
        "optimizer_history": [{**history, "num_updates": 1}],
        "last_optimizer_state": {"exp_avg": moments, "exp_avg_sq": moments},
        "extra_state": {},
    }
    torch.save(state, path)


def measure(path: str, precision: str, keep_model: bool) -> dict:
    """Measure memory; see the module's description."""
    torch.set_num_threads(1)
    words = tiny.dictionary(WORDS)
    options = dict(decoding="greedy", engine_precision=precision, keep_model=keep_model)
    task = TranslationFastdecTask(TranslationFastdecConfig(**options), words, words)
    task.only_decodes = True
    trim()
    before = _memory()[0]
    _forget_peak()
    models, _ = checkpoint_utils.load_model_ensemble([path], task=task)
    loaded, loading = _memory()
    n_bytes = sum(p.numel() * p.element_size() for p in models[0].parameters())
    _forget_peak()
    args = argparse.Namespace(beam=1, max_len_b=5, nbest=1)
    generator = task.build_generator(models, args)
    hypotheses = generator.generate(models, tiny.random_batch(task, [5]))
    trim()
    in_the_end, decoding = _memory()
    own = hypotheses[0][0]["tokens"].tolist()
    return dict(
        model=n_bytes / 2**20,
        loading=loading - before,
        loaded=loaded - before,
        decoding=decoding - before,
        in_the_end=in_the_end - before,
        tokens=own,
    )


def _memory() -> tuple[float, float]:
    """The current memory, and the peak since the last reset, in MiB."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    sizes = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith("Vm")}
    return int(sizes["VmRSS"]) / 1024, int(sizes["VmHWM"]) / 1024


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], "--keep-model" in sys.argv)))
