"""From modules of fairseq to parts of the engine: weights, precisions, supported models."""
