from . import translation_fastdec  # noqa: F401
