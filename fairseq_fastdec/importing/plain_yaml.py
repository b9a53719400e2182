"""YAML of configurations and vocabularies: mappings, lists and strings, without any other types."""

from pathlib import Path
from typing import Any, Union

import yaml

from .imported import UnreadableModel

DEEPEST = 8  # levels; Marian's files have two

Plain = Union[str, list[Any], dict[str, Any]]


def parsed(text: Union[str, bytes], path: Union[str, Path]) -> Plain:
    """Parse YAML or JSON, in time and memory that grow with its length only.

    Numbers and words such as ``yes`` stay strings, as in Marian: a vocabulary has such pieces.
    Aliases, which let a short text stand for a huge one, are refused.

    Args:
        path: where the text is from, for the message.

    Raises:
        UnreadableModel: for other text, and for a key that is given twice.
    """
    try:
        events = iter(yaml.parse(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader)))
        return _document(events, path)
    except (yaml.YAMLError, UnicodeError) as error:
        reason = " ".join(str(error).split())
        raise UnreadableModel(f"{path}: is not YAML: {reason}") from error


def _document(events: Any, path: Union[str, Path]) -> Plain:
    """The first document; an empty one is an empty mapping."""
    for event in events:
        if isinstance(event, (yaml.StreamStartEvent, yaml.DocumentStartEvent)):
            continue
        if isinstance(event, yaml.StreamEndEvent):
            break
        return _value(event, events, path, DEEPEST)
    return {}


def _value(event: Any, events: Any, path: Union[str, Path], levels: int) -> Plain:
    """The value that an event begins."""
    if isinstance(event, yaml.ScalarEvent):
        return str(event.value)
    if isinstance(event, yaml.AliasEvent):
        raise UnreadableModel(f"{path}: has YAML aliases")
    if not levels:
        raise UnreadableModel(f"{path}: has more than {DEEPEST} levels of lists")
    if isinstance(event, yaml.SequenceStartEvent):
        return [_value(item, events, path, levels - 1) for item in _until_end(events)]
    values: dict[str, Any] = {}
    for key in _until_end(events):
        if not isinstance(key, yaml.ScalarEvent):
            raise UnreadableModel(f"{path}: has a key that is not a word")
        if key.value in values:
            raise UnreadableModel(f"{path}: has the key {key.value!r:.100} twice")
        values[key.value] = _value(next(events), events, path, levels - 1)
    return values


def _until_end(events: Any) -> Any:
    """The events up to the end of a list or mapping, whose own parts the caller consumes."""
    for event in events:
        if isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            return
        yield event
