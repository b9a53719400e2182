"""Commands of this package; ``python -m fairseq_fastdec`` lists them.

- ``prepare_data``, ``distillation``, ``shortlisting`` make data
- ``average_checkpoints`` makes a checkpoint
- ``export`` makes a bundle
- ``visualize`` looks at decoding
- ``corpus`` is shared by them
"""
