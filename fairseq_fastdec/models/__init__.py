from . import blockwise_transformer, double_token_transformer, marian_transformer  # noqa: F401
