"""A complete decoding method in one file: ``docs/architecture.md`` explains it.

In a package of your own the decorator adds it to ``--decoding``. In this package's own tree a line
in ``decoding/registry.py`` does so instead.
"""

import torch
from torch import Tensor

from fairseq_fastdec.decoding import register_decoding
from fairseq_fastdec.decoding.methods.generator import SingleHypothesisMethod
from fairseq_fastdec.decoding.methods.outputs import OutputBatch


@register_decoding("two_tokens")
class TwoTokens(SingleHypothesisMethod):
    """Greedy decoding that guesses the next token, and takes two steps in one if it is right.

    The guess is the last step's answer to its own guess. Outputs are those of greedy decoding.
    """

    def decode(self, batch: OutputBatch, last: Tensor) -> None:
        # Each of the R rows has yet to be fed its last token, or BOS: int64 [R].
        guess = torch.full_like(last, self.rules.pad)
        while batch.n_rows:
            # One decoder invocation, and the model's best token after each token fed: [R, 2].
            features = batch.step(torch.stack([last, guess], dim=1))
            scores, answers = batch.log_probs(features, first=0).max(dim=-1)
            # The first answer is final. The second one is, too, if the token before it was right.
            is_right = answers[:, 0] == guess
            n_final = 1 + is_right.long()
            # Show ddgviz the step, keep the final answers up to an EOS, and let rows leave that
            # have ended.
            batch.observe(0, guess[:, None], answers, scores, n_final)
            batch.keep(answers, scores, n_final)
            last = torch.where(is_right, answers[:, 1], answers[:, 0])
            last, guess = batch.without_finished(last, answers[:, 1])
