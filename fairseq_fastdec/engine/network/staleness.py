"""Notices when a model may have been trained on since its weights were prepared."""

import weakref
from typing import Tuple

import torch
from torch import nn


class Watch:
    """Says whether the parameters of an encoder or decoder can have changed since :meth:`reset`.

    The engine works on prepared copies of the parameters and never calls the model's own layers. So
    whoever does call them (training, as with ``--eval-bleu``), loads a state dict or moves the
    model, may have changed the parameters.
    """

    def __init__(self, coder: nn.Module) -> None:
        """
        Args:
            coder: not kept alive.
        """
        # Its weight is never released.
        self._norm = weakref.ref(coder.layers[0].final_layer_norm)
        self._touched = True
        self._placement = None
        watch = weakref.ref(self)

        def touch(*_) -> None:
            if watch() is not None:
                watch()._touched = True

        handles = (
            coder.layers[0].register_forward_pre_hook(touch),
            coder.register_load_state_dict_post_hook(touch),
        )
        for handle in handles:
            weakref.finalize(self, handle.remove)

    def changed(self) -> bool:
        """Whether the parameters may differ from those at the last reset."""
        return self._touched or self._placement != self._where()

    def reset(self) -> None:
        """Take the parameters as they are now for known."""
        self._touched = False
        self._placement = self._where()

    def _where(self) -> Tuple[int, torch.dtype, torch.device]:
        weight = self._norm().weight
        return weight.data_ptr(), weight.dtype, weight.device
