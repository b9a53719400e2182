"""The table of decoding methods, and the decorator that adds one from outside.

A new method is a file with a :class:`~..decoding.generator.DecodingGenerator` (most are a
:class:`~..decoding.methods.generator.SingleHypothesisMethod`) and one line in :data:`METHODS`.
"""

import importlib
from collections.abc import Callable
from typing import Any, Optional, TypeVar, Union

# fairseq's own generator, which the plugin does not build.
STOCK = "fairseq"

# The package that the modules of methods are relative to.
DECODING = f"{__package__.partition('.')[0]}.decoding"

# Maps a method's name to ``module:class``, with the module relative to DECODING or absolute.
# Classes are imported on first use: methods import the options, and the options this table.
METHODS: dict[str, Union[str, type]] = {
    "greedy": ".methods.greedy:Greedy",
    "blockwise": ".methods.blockwise:Blockwise",
    "jacobi": ".methods.jacobi:Jacobi",
    "gs_jacobi": ".methods.gs_jacobi:GSJacobi",
    "hybrid_jacobi": ".methods.hybrid_jacobi:HybridJacobi",
    "lookahead": ".methods.lookahead:Lookahead",
    "auto": ".auto:Auto",
    "beam": ".methods.beam:FixedBeam",
    "variable_beam": ".methods.variable_beam:VariableBeam",
    "streaming": ".methods.streaming:Streaming",
    "double_token": ".methods.double_token:DoubleToken",
}

# The methods that verify drafts given for sentences, and their names in messages.
DRAFTED = ("greedy", "blockwise", "lookahead", "auto")
ALL_DRAFTED = ", ".join(DRAFTED)
ANY_DRAFTED = f"{', '.join(DRAFTED[:-1])} or {DRAFTED[-1]}"

# The methods whose sentences cannot join a running batch.
OF_WHOLE_BATCHES = (STOCK,)

GeneratorClass = TypeVar("GeneratorClass", bound=type)


def register_decoding(
    name: str, options: Optional[type] = None
) -> Callable[[GeneratorClass], GeneratorClass]:
    """Add a method to ``--decoding``: a decorator, as fairseq's ``register_task`` is.

        @register_decoding("my_method")
        class MyMethod(SingleHypothesisMethod):
            ...

    The file has to be imported before the command line is parsed. fairseq imports the package of
    ``--user-dir``, which may be another package as long as it imports this one.

    Args:
        options: a dataclass of the method's own options, made with :func:`~.option_rules.option`;
            they become options of all tasks with ``--decoding``.

    Raises:
        ValueError: for a name that is already taken by a method or an option.
    """

    def register(generator: GeneratorClass) -> GeneratorClass:
        if name in decoding_names():
            raise ValueError(f"--decoding {name}: already registered; choose another name")
        if options is not None:
            importlib.import_module(".options", DECODING).declare(options)
        METHODS[name] = generator
        return generator

    return register


def decoding_names() -> tuple[str, ...]:
    """All values of ``--decoding``."""
    return (STOCK, *METHODS)


def any_joining() -> str:
    """The names of the methods whose sentences can join running batches, for messages."""
    *names, last = (name for name in METHODS if name not in OF_WHOLE_BATCHES)
    return f"{', '.join(names)} or {last}"


def generator_class(name: str) -> Any:
    """The class of a method in :data:`METHODS`."""
    place = METHODS[name]
    if not isinstance(place, str):
        return place
    module, class_name = place.split(":")
    return getattr(importlib.import_module(module, DECODING), class_name)
