"""A model without parameters, in the manner of fairseq's own test doubles.

Like fairseq's doubles, it returns probabilities instead of logits, counts its steps in the
incremental state, and has its own format of encoder output. Unlike theirs, its probabilities depend
on the sentence and on the decoded tokens, not on the place in the batch, so that searches may drop
and reorder rows.
"""

from collections import namedtuple

import torch
from fairseq import utils
from fairseq.models import FairseqEncoder, FairseqEncoderDecoderModel, FairseqIncrementalDecoder

Encoded = namedtuple("Encoded", "source")


class TableEncoder(FairseqEncoder):
    """Returns the source tokens."""

    def forward(self, src_tokens, src_lengths=None):
        return Encoded(src_tokens)

    def reorder_encoder_out(self, encoder_out, new_order):
        return Encoded(encoder_out.source.index_select(0, new_order))


class TableDecoder(FairseqIncrementalDecoder):
    """Looks up probabilities by a hash of the source, the last token and the step."""

    def __init__(self, dictionary, n_entries=97):
        super().__init__(dictionary)
        generator = torch.Generator().manual_seed(0)
        weights = torch.rand(n_entries, len(dictionary), generator=generator)
        weights[:, : dictionary.eos()] = 0
        weights[:, dictionary.unk()] = 0
        weights = weights**4
        self.register_buffer("table", weights / weights.sum(dim=1, keepdim=True))

    def forward(self, prev_output_tokens, encoder_out=None, incremental_state=None):
        steps = torch.arange(prev_output_tokens.size(1))
        if incremental_state is not None:
            step = utils.get_incremental_state(self, incremental_state, "step") or 0
            utils.set_incremental_state(self, incremental_state, "step", step + 1)
            prev_output_tokens, steps = prev_output_tokens[:, -1:], torch.tensor([step])
        words = encoder_out.source * encoder_out.source.ne(self.dictionary.pad())
        entry = 31 * words.sum(dim=1, keepdim=True) + 7 * prev_output_tokens + 13 * steps
        return self.table[entry % self.table.size(0)], {"attn": [None]}

    def get_normalized_probs(self, net_output, log_probs, sample=None):
        """The decoder's outputs are already probabilities."""
        return net_output[0].log() if log_probs else net_output[0]


def table_model(task):
    """The double for a task's dictionaries."""
    encoder = TableEncoder(task.source_dictionary)
    return FairseqEncoderDecoderModel(encoder, TableDecoder(task.target_dictionary)).eval()
