"""Sets up the plugin and registers it with fairseq."""

import gc
import sys

from .fairseq_patches import lean_imports
from .processes import noise

# Garbage collection during the imports would take longer than the imports.
_collects_garbage = gc.isenabled()
gc.disable()
noise.install()
with noise.imports_unheard():
    if lean_imports.is_decoding_command(sys.orig_argv):
        lean_imports.install()
    from .fairseq_patches import compat
compat.install()

# Imported after compat.install(), for registration with fairseq.
from . import criterions, models, tasks  # noqa: E402,F401
from .checkpoints import hub  # noqa: E402
from .fairseq_patches import faster_fairseq, mapped_checkpoints  # noqa: E402
from .processes import errors  # noqa: E402
from .tasks.decoding_commands import is_decoding_command  # noqa: E402

mapped_checkpoints.install()
hub.install()
faster_fairseq.install()
errors.install()
if is_decoding_command() or lean_imports.is_decoding_command(sys.orig_argv):
    # Exclude imported objects from garbage collection, which would take longer than a short
    # command.
    gc.freeze()
if _collects_garbage:
    gc.enable()
