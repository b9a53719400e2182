"""Compiled code for CPUs: linear layers, whole decoder steps, the best tokens, moving rows.

Each class here has a factory ``of``, which returns ``None`` where compiled code cannot help. The
factories ask :func:`.loading.library`; nobody else has to know whether anything was compiled.
"""


def description() -> str:
    """Whether there is compiled code, and without it how to get it."""
    from . import loading

    if loading.library() is not None:
        return "with compiled code"
    return (
        "without compiled code, so decoding on a CPU is slower; install a C++ compiler (such as "
        f"g++). {loading.how_to_install()}"
    )
