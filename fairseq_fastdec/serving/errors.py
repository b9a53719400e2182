"""The errors of the service that models raise."""


class QueueFull(RuntimeError):
    """Too many sentences are waiting; the caller should try again later."""
