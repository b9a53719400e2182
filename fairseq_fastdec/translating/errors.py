"""Errors that translators raise for the service."""


class QueueFull(RuntimeError):
    """Too many sentences are waiting; try again later."""
