"""Networks that the decoding methods step, in torch.

The rows of a network are the prefixes that are being decoded. Rows may differ in length, and each
row belongs to one source sentence. All networks have the same interface:

    network.reset()                          # no rows
    network.encode(net_input)                # B more rows of length 0, one for each source
    features = network.step(tokens)          # append int64 [R, T] to the rows: [R, T, C]
    log_probs = network.log_probs(features)  # of the token after each fed token: [R, T, V]
    network.keep(n)                          # row r keeps the first n[r] fed tokens
    network.select(rows)                     # row i becomes a copy of row rows[i]
    network.tighten(longest)                 # no row has more tokens, so read no more keys

Networks use the model's modules and parameters, in its dtype and on its device; they need no
compiled code. The methods use an :class:`~.ensemble.Ensemble`, whose members are a
:class:`~.transformer.TransformerNetwork` for each stock transformer and an
:class:`~.incremental.IncrementalNetwork` for each other model of fairseq.
"""

from .ensemble import Ensemble

__all__ = ["Ensemble"]
