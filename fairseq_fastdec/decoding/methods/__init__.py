"""The decoding methods, one file for each, as its paper describes it, in torch alone.

They run on any device and for any model of fairseq. For models that the engine knows, the same
method in compiled code decodes on a CPU; the tests hold the two against each other.
"""
