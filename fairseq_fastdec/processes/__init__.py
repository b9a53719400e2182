"""The process of a command: streams, errors, messages, memory; no torch, no fairseq."""
