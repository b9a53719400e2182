"""Counts what a step of each method asks of a GPU, without one."""
