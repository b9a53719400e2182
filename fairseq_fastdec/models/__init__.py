from . import blockwise_transformer, double_token_transformer  # noqa: F401
