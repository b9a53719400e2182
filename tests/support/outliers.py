"""Equivalent models with channels that are much larger than their neighbours.

``python -m tests.support.outliers DATA`` measures their effect on int8 with the bundled model, for
the table in docs/performance.md. DATA is its binarised test set.
"""

import argparse
import copy
import math
import sys
from pathlib import Path

import sacrebleu
import torch
from fairseq import checkpoint_utils

from fairseq_fastdec.decoding import build_generator
from fairseq_fastdec.decoding.options import DecodingOptions
from fairseq_fastdec.packing import trial

# These parts affect all layers.
PARTS = ("fc1", "fc2", "qkv", "cross")


def _scale(channel, factor, larger, smaller):
    """Scale up a channel where it is computed, and scale down the weights that read it."""
    for module in larger:
        module.weight[channel] *= factor
        module.bias[channel] *= factor
    for module in smaller:
        module.weight[:, channel] /= factor


@torch.no_grad()
def with_outliers(model, factor, channels=(3,), parts=("fc1", "fc2", "qkv")):
    """A copy of a pre-norm transformer that is equivalent in exact arithmetic.

    Args:
        parts: parts of every encoder and decoder layer; also "output", and "cross", the keys and
            values of the sources.
    """
    model = copy.deepcopy(model)
    layers = [*model.encoder.layers, *model.decoder.layers]
    for channel in channels:
        for layer in layers:
            own = layer.self_attn
            if "fc1" in parts:
                _scale(channel, factor, [layer.final_layer_norm], [layer.fc1])
            if "fc2" in parts:
                _scale(channel, factor, [layer.fc1], [layer.fc2])
            if "qkv" in parts:
                _scale(
                    channel, factor, [layer.self_attn_layer_norm],
                    [own.q_proj, own.k_proj, own.v_proj],
                )  # fmt: skip
        if "cross" in parts:
            readers = [
                linear
                for layer in model.decoder.layers
                for linear in (layer.encoder_attn.k_proj, layer.encoder_attn.v_proj)
            ]
            _scale(channel, factor, [model.encoder.layer_norm], readers)
        if "output" in parts:
            _scale(channel, factor, [model.decoder.layer_norm], [model.decoder.output_projection])
    return model


def _greedy(model, task, n_sentences, precision):
    """Decode sentences, and join subwords."""
    options = DecodingOptions(decoding="greedy", engine_precision=precision)
    args = argparse.Namespace(beam=1, max_len_a=0, max_len_b=200)
    generator = build_generator([model], task.target_dictionary, args, options)
    data, found = task.dataset("test"), {}
    for first in range(0, n_sentences, 50):
        batch = data.collater([data[i] for i in range(first, min(first + 50, n_sentences))])
        for number, own in zip(batch["id"].tolist(), generator.generate([], batch)):
            found[number] = task.target_dictionary.string(own[0]["tokens"], "subword_nmt")
    return [found[number] for number in sorted(found)]


def _measure(data, n_sentences=200):
    path = Path(__file__).parents[2] / "examples" / "en_de" / "model" / "checkpoint.pt"
    overrides = {"data": data, "task": "translation"}
    models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], overrides)
    task.load_dataset("test")
    targets = (task.dataset("test")[number]["target"] for number in range(n_sentences))
    references = [task.target_dictionary.string(target, "subword_nmt") for target in targets]
    exact = _greedy(models[0], task, n_sentences, "fp32")
    limit = trial.LARGEST_ERROR
    for factor in (1, 10, 20, 40, 80, 160, 320):
        for trial.LARGEST_ERROR in (math.inf, limit):
            model = with_outliers(models[0], factor, (3, 77, 130, 200), PARTS)
            own = _greedy(model, task, n_sentences, "int8")
            bleu = sacrebleu.corpus_bleu(own, [references], force=True).score
            same = sum(one == other for one, other in zip(own, exact))
            print(
                f"x {factor}, {trial.LARGEST_ERROR:.0%} allowed: BLEU {bleu:.2f}, {same} the same"
            )


if __name__ == "__main__":
    _measure(sys.argv[1])
