"""Compiled searches: C++ code, its loading, rules and options; no torch, no fairseq."""
