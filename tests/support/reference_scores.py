"""Scores of targets by fairseq's own scorer, sentence by sentence."""

import torch
from fairseq.sequence_scorer import SequenceScorer


def reference_score(models, dictionary, source, target, bos=None):
    """fairseq's hypothesis for a target that is scored alone.

    Args:
        dictionary: of the target.
        source: the encoder's input, with EOS.
        target: with EOS.
        bos: the decoder's first input (default: EOS).
    """
    first = dictionary.eos() if bos is None else bos
    sample = {
        "net_input": {
            "src_tokens": torch.tensor([source]),
            "src_lengths": torch.tensor([len(source)]),
            "prev_output_tokens": torch.tensor([[first, *target[:-1]]]),
        },
        "target": torch.tensor([target]),
    }
    return SequenceScorer(dictionary).generate(models, sample)[0][0]
