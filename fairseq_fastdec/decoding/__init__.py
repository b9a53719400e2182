"""Decoding: each method as its paper describes it, in :mod:`.methods`."""
