from . import translation_double_token, translation_fastdec  # noqa: F401
