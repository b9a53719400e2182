"""Compiled code for CPUs: products, whole decoder steps, the choice of tokens, moving rows."""
