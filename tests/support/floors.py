"""The layers of the package, from the bottom up; see docs/architecture.md."""

# Each tuple is one layer.
FLOORS = (
    ("processes", "fairseq_patches.wrapping"),
    ("data",),
    ("engine.kernels",),
    ("engine",),
    ("translating",),
    ("fairseq_patches", "orders"),
    ("packing",),
    ("models", "criterions"),
    ("network",),
    ("decoding",),
    ("tasks",),
    ("importing",),
    ("checkpoints",),
    ("serving", "corpora", "tools"),
    ("",),
)
