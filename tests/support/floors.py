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
        "known_modules",
        "lazy",
        "lean_imports",
        "mapped_checkpoints",
        "memory",
        "noise",
        "progress",
        "results",
        "stock_decoders",
    ),
    ("engine.kernels",),
    ("engine.products",),
    ("engine.network",),
    ("engine",),
    ("models", "criterions"),
    ("network",),
    ("decoding",),
    ("serving.errors", "serving.scheduler", "serving.translating"),
    ("bundles", "hub", "kept_generators", "tasks", "translator"),
    ("opening",),
    ("serving", "tools"),
    ("",),
)
