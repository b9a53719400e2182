"""Compiled code for CPUs: packed linear layers, and the extension module with the searches."""


def description() -> str:
    """Describe whether there is compiled code, and if not, how to install it."""
    from . import loading

    if loading.library() is not None:
        return "with compiled code"
    return (
        "without compiled code, so decoding on a CPU is slower; install a C++ compiler (such as "
        f"g++). {loading.how_to_install()}"
    )
