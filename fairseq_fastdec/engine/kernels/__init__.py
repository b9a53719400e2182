"""Compiled code for CPUs: linear layers, whole decoder steps, the best tokens, moving rows.

Each class here has a factory ``of``, which returns ``None`` where compiled code cannot help. The
factories ask :func:`.loading.library`; nobody else has to know whether anything was compiled.
"""
