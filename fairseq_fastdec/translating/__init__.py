"""Translation of text with shared batches, and bundles; no torch, no fairseq."""
