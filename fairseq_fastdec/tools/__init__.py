"""Commands of this package; ``python -m fairseq_fastdec`` lists them.

- ``prepare_data``, ``distillation``, ``shortlisting`` make data
- ``average_checkpoints`` makes a checkpoint
- ``export``, ``translate`` make a bundle, and translate lines with it
- ``visualize`` looks at decoding
- ``command_line``, ``corpus``, ``kept_settings`` are shared by them
"""
