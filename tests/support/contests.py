"""A contest's methods and settings."""

from benchmarks.compare.methods import Method, Settings

SETTINGS = Settings(("data",), "cpu", "fp32", 2)
METHODS = [Method(name, ("--beam", "1")) for name in ("slow", "fast", "wide", "wide 2")]
