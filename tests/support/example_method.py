"""A complete decoding method in one file, explained in ``docs/architecture.md``.

In your own package, the decorator adds it to ``--decoding``. Methods in this package have a line in
``translating/registry.py`` instead.
"""

import torch
from torch import Tensor

from fairseq_fastdec.decoding import register_decoding
from fairseq_fastdec.decoding.methods.generator import SingleHypothesisMethod
from fairseq_fastdec.decoding.methods.outputs import OutputBatch


@register_decoding("two_tokens")
class TwoTokens(SingleHypothesisMethod):
    """Greedy decoding that guesses the next token, and saves a step if the guess is right.

    The guess is the last step's answer to its guess. Outputs are those of greedy decoding.
    """

    def decode(self, batch: OutputBatch, last: Tensor) -> None:
        # last: int64 [R], the next token to feed to each row: BOS, or the row's last token.
        guess = torch.full_like(last, self.rules.pad)
        while batch.n_rows:
            # One decoder invocation; the model's best token after each fed token: [R, 2].
            features = batch.step(torch.stack([last, guess], dim=1))
            scores, answers = batch.log_probs(features, first=0).max(dim=-1)
            # The first answer is final. So is the second one if the guess before it was right.
            is_right = answers[:, 0] == guess
            n_final = 1 + is_right.long()
            # Report the step to ddgviz, keep the final answers up to EOS, and remove ended rows.
            batch.observe(0, guess[:, None], answers, scores, n_final)
            batch.keep(answers, scores, n_final)
            last = torch.where(is_right, answers[:, 1], answers[:, 0])
            last, guess = batch.without_finished(last, answers[:, 1])
