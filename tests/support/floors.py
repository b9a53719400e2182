"""The layers of the package, from the bottom up; see docs/architecture.md."""

# Each tuple is one layer.
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
