"""The decoding methods, one per file, written in torch as in their papers.

They run on any device and with any model of fairseq. On a CPU, models that the engine supports are
decoded by the same method in compiled code; tests compare the two.
"""
