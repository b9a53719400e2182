"""Models of other programs as fairseq's: Hugging Face's classes, Marian's and Firefox's files.

Each format has one reader, which returns an :class:`~.imported.Imported`; everything else is the
same for all of them.
"""
