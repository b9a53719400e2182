"""Compiled code for CPUs: packed linear layers, and the extension module with the searches."""


def description() -> str:
    """Describe whether there is compiled code, and its kernels or how to install it."""
    from . import loading

    library = loading.library()
    if library is not None:
        return f"with compiled code ({library.instruction_set_in_use()})"
    return (
        "without compiled code, so decoding on a CPU is slower; install a C++ compiler (such as "
        f"g++). {loading.how_to_install()}"
    )
