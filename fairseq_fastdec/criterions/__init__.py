from . import random_sub_loss  # noqa: F401
