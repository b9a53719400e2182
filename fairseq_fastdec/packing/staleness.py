"""Detects changes of a model's parameters since its weights were prepared."""

from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

_n_optimizer_steps = 0


def _count_step(*_: Any) -> None:
    global _n_optimizer_steps
    _n_optimizer_steps += 1


# fairseq's optimizers write to ``parameter.data``, which does not change the parameter's version.
register_optimizer_step_post_hook(_count_step)


class Watch:
    """Detects changes of an encoder's or decoder's parameters since :meth:`reset`.

    The engine computes with prepared copies of the parameters. Detected changes are steps of any
    optimizer, in-place operations, ``load_state_dict``, new parameters or modules, and moves to
    another device or dtype. Other writes to ``parameter.data`` are not detected.

    The module needs no hooks, so it can be pickled and copied.
    """

    def __init__(self, coder: Any) -> None:
        """
        Args:
            coder: the encoder or decoder. It is not kept alive, but its submodules and parameters
                are, until the next reset.
        """
        self._coder_modules = coder._modules
        self._coder_parameters = coder._parameters
        self._parameters: list[tuple[dict[str, Any], str, nn.Parameter, int]] = []
        self._modules: list[tuple[dict[str, Any], str, nn.Module]] = []
        self._n_steps = -1
        self._placement: Any = None

    def changed(self) -> bool:
        """Whether the parameters may differ from those at the last reset."""
        if self._n_steps != _n_optimizer_steps or self._placement != self._where():
            return True
        for modules, name, module in self._modules:
            if modules.get(name) is not module:
                return True
        for parameters, name, parameter, version in self._parameters:
            if parameters.get(name) is not parameter or parameter._version != version:
                return True
        return False

    def reset(self) -> None:
        """Compare with the current parameters from now on."""
        self._n_steps = _n_optimizer_steps
        self._modules, self._parameters = [], []
        self._add(self._coder_modules, self._coder_parameters)
        self._placement = self._where()

    def _add(self, modules: dict[str, Any], parameters: dict[str, Any]) -> None:
        for name, parameter in parameters.items():
            if parameter is not None:
                self._parameters.append((parameters, name, parameter, parameter._version))
        for name, module in modules.items():
            if module is not None:
                self._modules.append((modules, name, module))
                self._add(module._modules, module._parameters)

    def _where(self) -> tuple[int, torch.dtype, torch.device]:
        """The address, dtype and device of a norm's weight, which is never released."""
        weight = next(iter(self._coder_modules["layers"].children())).final_layer_norm.weight
        return weight.data_ptr(), weight.dtype, weight.device
