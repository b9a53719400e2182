"""A complete decoding method in one file: ``docs/architecture.md`` explains it.

In a package of your own the decorator adds it to ``--decoding``. In this package's own tree a line
in ``generators/methods.py`` does so instead.
"""

from typing import Optional

import torch
from torch import Tensor

from fairseq_fastdec.generators import SingleHypothesisGenerator, register_decoding
from fairseq_fastdec.generators.single.batch import Batch


@register_decoding("two_tokens")
class TwoTokenGenerator(SingleHypothesisGenerator):
    """Greedy decoding that guesses the next token, and takes two steps in one where it is right.

    The guess is the last step's answer to its own guess. Outputs are those of greedy decoding.
    """

    def decode(self, batch: Batch, bos: int, prefix: Optional[Tensor]) -> None:
        # Force the prefix. Each of the R rows has yet to be fed the last token of it, or BOS: [R].
        last = batch.open(bos, prefix)
        guess = torch.full_like(last, self.rules.pad)
        while batch.n_rows:
            # One decoder invocation, and the model's best token after each token fed: [R, 2].
            features = batch.feed(torch.stack([last, guess], dim=1))
            scores, answers = batch.answers(features)
            # The first answer is final. The second one is, too, if the token before it was right.
            is_right = answers[:, 0] == guess
            n_final = 1 + is_right.long()
            # Tell ddgviz, keep the final answers up to an EOS, and let rows leave that have ended.
            batch.observe(0, guess[:, None], answers, scores, n_final)
            batch.keep(answers, scores, n_final)
            last = torch.where(is_right, answers[:, 1], answers[:, 0])
            last, guess = batch.without_finished(last, answers[:, 1])
