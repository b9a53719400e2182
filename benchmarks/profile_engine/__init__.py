"""Profiles of the engine: the time of each part of a decoding step, and its lower bound."""
