"""Saves time in Hydra, which takes most of the time of a fairseq command on a tiny model."""

import contextlib
import copy
import functools
from unittest import mock

from hydra._internal import config_repository
from hydra.core.override_parser.overrides_parser import OverridesParser


@contextlib.contextmanager
def parsed_once():
    """In this context Hydra parses each override once, and does not copy its configurations.

    Hydra copies them because a command line can change where they are searched for; fairseq's
    cannot. Hydra 1.0, which fairseq 0.12.2 uses, has no such copy.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(OverridesParser, "parse_rule", _parse_rule))
        kind = getattr(config_repository, "CachingConfigRepository", None)
        if kind is not None:
            stack.enter_context(mock.patch.object(kind, "__init__", _init_without_copy))
        yield


def _parse_rule(parser, text, rule):
    return copy.copy(_parsed(text, rule))


@functools.cache
def _parsed(text, rule):
    return _original_parse_rule(OverridesParser.create(), text, rule)


def _init_without_copy(repository, delegate):
    repository.delegate, repository.cache = delegate, {}


_original_parse_rule = OverridesParser.parse_rule
