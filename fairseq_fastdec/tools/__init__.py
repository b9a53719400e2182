"""Commands of this package; ``python -m fairseq_fastdec`` lists them.

- ``prepare_data``, ``distillation``, ``shortlisting`` make data
- ``average_checkpoints`` makes a checkpoint
- ``export``, ``translate`` make a bundle, and translate lines with it
- ``benchmark``, ``profiling``, ``visualize`` look at decoding
- ``command_line``, ``corpus``, ``atomic_files`` are shared by them
"""
