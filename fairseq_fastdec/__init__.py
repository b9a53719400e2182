"""Fast decoding for fairseq sequence-to-sequence models: ``--user-dir fairseq_fastdec``.

A short map, from the top floor down (docs/architecture.md):

- ``__main__.py``  ``python -m fairseq_fastdec``: all commands under one name
- ``tools/``       the commands besides decoding: data, benchmark, distillation, pictures
- ``tasks/``       ``TASK_fastdec``: fairseq's tasks plus ``--decoding``, ``translation_fastdec``
                   among them; ``translation_double_token``: with targets in another order
- ``opening.py``   ``fairseq_fastdec.load(...)``: a translator of checkpoints
                   (``translator.py``) or of a bundle (``bundles/``), text to text, from Python
- ``serving/``     sentences that join running batches, and the HTTP service
- ``bundles/``     models as one file, which decodes without torch and fairseq
- ``hub.py``       fairseq's hub interface knows our options, refuses unknown ones, and is as fast
- ``kept_generators.py``
                   generators that calls from Python share
- ``decoding/``    the methods, one file for each; options; the choice of engine or torch
- ``network/``     a model's steps in torch
- ``models/``, ``criterions/``
                   what we train: ``blockwise_transformer``, ``double_token_transformer``,
                   ``random_sub_loss``
- ``engine/``      the compiled searches, and the weights that they compute with
- ``data/``        the orders in which target tokens are decoded
- ``errors.py``    an error of the user's input ends a command in one line, with exit code 2
- ``mapped_checkpoints.py``, ``memory.py``
                   checkpoints load without a second copy in memory
- ``plugin.py``    what importing fairseq registers
- ``lean_imports.py``
                   leaves out what a decoding command does not need of fairseq
- ``faster_fairseq.py``
                   functions of fairseq's around decoding, with equal results in less time
- ``compat.py``    what today's torch and python need, and nothing else
- ``help.py``      ``--help`` begins with our options; ``--help-all`` has all of fairseq's
- ``noise.py``, ``progress.py``
                   what of others' messages stays off the screen; progress within a batch

``import fairseq_fastdec`` registers everything with fairseq, with or without ``--user-dir``. In a
process that has not imported fairseq it waits until fairseq is imported: what decodes from a bundle
needs neither fairseq nor torch.
"""

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Optional

from . import lazy
from .known_modules import known

if TYPE_CHECKING:
    from .opening import load
    from .results import SentenceError, Translation
    from .translator import Translator

__version__ = "0.1.0"

__all__ = ["SentenceError", "Translation", "Translator", "load"]

__getattr__ = lazy.names(
    __name__,
    {
        "load": ".opening",
        "SentenceError": ".results",
        "Translation": ".results",
        "Translator": ".translator",
    },
)


# What decodes from a bundle. Any other module of the package imports fairseq, which is prepared and
# registered with before, so that no module is in the middle of its import then.
WITHOUT_FAIRSEQ = (
    "__main__", "bundles", "cores", "data.model_files", "data.moses", "data.vocabulary",
    "decoding.generation_options", "decoding.registry", "engine.kernels.loading",
    "engine.kernels.parts", "engine.rules", "engine.searches", "errors", "known_modules", "lazy",
    "lean_imports", "noise", "opening", "results", "serving", "tools.atomic_files",
    "tools.command_line", "tools.distillation.filters",
    "tools.kept_settings", "tools.translate", "tools.translation.arguments",
    "tools.translation.bundle", "tools.translation.chunks", "tools.translation.command",
    "tools.translation.coordinator", "tools.translation.directory_lock",
    "tools.translation.manifest", "tools.translation.output_lines", "tools.translation.pool",
    "tools.translation.progress_bar", "tools.translation.ray_node",
    "tools.translation.ray_pool", "tools.translation.text_files", "tools.translation.worker",
)  # fmt: skip
PACKAGES = (
    "data", "decoding", "engine", "engine.kernels", "tools", "tools.distillation",
    "tools.translation",
)  # fmt: skip


class _Registering:
    """Registers everything with fairseq before fairseq, or a module that needs it, is imported."""

    def find_spec(
        self, name: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        """As the import system asks for it; ``None`` for modules that are not there yet."""
        package, _, own = name.partition(".")
        is_ours = package == __name__ and own not in PACKAGES and own != "plugin"
        needs_fairseq = is_ours and not any(f"{own}.".startswith(f"{o}.") for o in WITHOUT_FAIRSEQ)
        if name != "fairseq" and not needs_fairseq:
            return None
        sys.meta_path.remove(self)
        importlib.import_module(".plugin", __name__)
        return known(name) if name in sys.modules else None


if "fairseq" in sys.modules:
    importlib.import_module(".plugin", __name__)
else:
    sys.meta_path.insert(0, _Registering())
