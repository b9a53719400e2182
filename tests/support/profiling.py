"""Cases for the engine's profile."""

from benchmarks.profile_engine.profile import Case


def case(**changes):
    given = dict(decoding="greedy", beam=1, precision="fp32", batch_size=2)
    return Case(**{**given, "source_length": 6, "target_length": 8, **changes})
