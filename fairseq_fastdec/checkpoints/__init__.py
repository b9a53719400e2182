"""Translation from Python with fairseq's checkpoints."""
