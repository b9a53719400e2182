"""Damaged files: seeded mutations of a good one, which must be refused in one line or be read.

``FASTDEC_MUTATIONS=10000`` sets the number of mutations for each kind of file.
"""

import contextlib
import os
import random
import resource
import struct
import sys

from fairseq_fastdec.importing.imported import UnreadableModel

COUNT = int(os.environ.get("FASTDEC_MUTATIONS", "150"))
# Lengths that overflow, are negative or are just too large.
EXTREMES = (0, 1, 2, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**64 - 1)
MEMORY = 1 << 29  # bytes that a reader may need beyond those of the process


def mutated(data, generator):
    """The bytes with one to three changes."""
    data = bytearray(data)
    for _ in range(generator.randint(1, 3)):
        change = generator.choice((flip, number, number, cut, removed, repeated, noise))
        change(data, generator)
    return bytes(data)


def place(data, generator):
    """Where to change; more often in the first bytes, where headers are."""
    return generator.randrange(generator.choice((64, 1024, len(data) + 1))) % (len(data) + 1)


def flip(data, generator):
    """Change one bit."""
    if data:
        data[place(data, generator) % len(data)] ^= 1 << generator.randrange(8)


def number(data, generator):
    """Overwrite an integer of four or eight bytes, or its text."""
    at, value = place(data, generator) & ~3, generator.choice(EXTREMES)
    kind = generator.choice(("<I", "<Q", ""))
    changed = struct.pack(kind, value % 256 ** struct.calcsize(kind)) if kind else str(value)
    data[at : at + len(changed)] = changed if kind else changed.encode()


def cut(data, generator):
    """Remove the end."""
    del data[place(data, generator) :]


def removed(data, generator):
    """Remove a part."""
    at = place(data, generator)
    del data[at : at + generator.choice((1, 4, 8, 32, 100))]


def repeated(data, generator):
    """Repeat a part."""
    at, size = place(data, generator), generator.choice((1, 4, 8, 32, 100))
    data[at:at] = data[at : at + size]


def noise(data, generator):
    """Overwrite a part with random bytes, or with characters that YAML knows."""
    at, size = place(data, generator), generator.randint(1, 16)
    letters = generator.choice((range(256), b"[]{}:-&*!|>'\"%@`#, \n\t"))
    data[at : at + size] = bytes(generator.choice(letters) for _ in range(size))


@contextlib.contextmanager
def little_memory():
    """Let allocations beyond a limit fail, on Linux."""
    if sys.platform != "linux":
        yield
        return
    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def check(path, read, errors=(UnreadableModel, OSError), seed=0):
    """Check that mutations of a file are read, or refused in one line.

    Args:
        read: called for each mutation, which is in the file.
        errors: what it may raise.

    Returns:
        how many were refused
    """
    original, generator, refused = path.read_bytes(), random.Random(seed), 0
    with little_memory():
        for turn in range(COUNT):
            path.write_bytes(mutated(original, generator))
            try:
                read()
            except errors as error:
                message = str(error)
                assert message and len(message) < 1000 and "\n" not in message, message
                refused += 1
            except BaseException as error:
                raise AssertionError(f"mutation {turn}: {error!r}") from error
    path.write_bytes(original)
    return refused
