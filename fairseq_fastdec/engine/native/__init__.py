"""Compiled code for fp32 on CPUs: products, and whole decoder steps."""
