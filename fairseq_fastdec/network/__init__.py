"""A model's decoder as a network that search methods step, in torch alone.

The rows of a network are the prefixes that are being decoded. Rows may differ in length, and each
row belongs to one source sentence. All networks have one face:

    network.reset()                          # no rows
    network.encode(net_input)                # B more rows of length 0, one for each source
    features = network.step(tokens)          # feed int64 [R, T] behind the rows: [R, T, C]
    log_probs = network.log_probs(features)  # of the token after each fed token: [R, T, V]
    network.keep(n)                          # row r keeps the first n[r] fed tokens
    network.select(rows)                     # row i becomes what row rows[i] was

Everything is computed from the model's own modules and parameters, in the model's dtype and on its
device, so that this package needs no compiled code. :class:`~.ensemble.Ensemble` is the network
that the methods use. Its members are a :class:`~.transformer.TransformerNetwork` for each stock
transformer and an :class:`~.incremental.IncrementalNetwork` for each other model of fairseq.
"""

from .ensemble import Ensemble

__all__ = ["Ensemble"]
