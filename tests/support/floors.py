"""The floors of the package, from the ground up; see docs/architecture.md."""

# What is on one line is one floor.
FLOORS = (
    (
        "compat",
        "cores",
        "data",
        "errors",
        "faster_fairseq",
        "help",
        "lean_imports",
        "mapped_checkpoints",
        "memory",
        "noise",
        "progress",
        "stock_decoders",
    ),
    ("engine.kernels",),
    ("engine.products",),
    ("engine.network",),
    ("engine",),
    ("models", "criterions"),
    ("network",),
    ("decoding",),
    ("tasks", "hub", "translator", "kept_generators"),
    ("tools",),
    ("",),
)
