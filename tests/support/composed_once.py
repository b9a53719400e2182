"""Composes a configuration of fairseq once instead of once per command.

Hydra takes most of the time of a command on a tiny model.
"""

import contextlib
import copy
import functools
from pathlib import Path

from fairseq.dataclass import utils
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.experimental import compose, initialize_config_dir
from omegaconf import OmegaConf

CONFIG = Path(utils.__file__).resolve().parents[1] / "config"


def install() -> None:
    """Make fairseq's commands in this process share compositions and parsed overrides."""
    utils.initialize = lambda config_path: contextlib.nullcontext()
    utils.compose = _compose


def _compose(name, overrides, strict):
    """Like Hydra's ``compose``, for overrides ``GROUP=NAME`` and ``GROUP.OPTION=VALUE``."""
    parsed = [_parsed(override) for override in overrides]
    groups = [one.input_line for one in parsed if "." not in one.key_or_group]
    config = copy.deepcopy(_composed(name, *groups))
    OmegaConf.set_struct(config, True)
    ConfigLoaderImpl._apply_overrides_to_config(
        [one for one in parsed if "." in one.key_or_group], config
    )
    OmegaConf.set_struct(config, strict)
    return config


@functools.cache
def _composed(name, *groups):
    with initialize_config_dir(str(CONFIG)):
        return compose(name, overrides=list(groups), strict=False)


@functools.cache
def _parsed(override):
    return OverridesParser.create().parse_override(override)
