"""Fast decoding for fairseq sequence-to-sequence models: ``python -m fairseq_fastdec``.

Overview, from the top layer down (docs/architecture.md):

- ``__main__.py``  ``python -m fairseq_fastdec``: the command line
- ``tools/``       commands for data, benchmarks, distillation, figures and corpora
- ``tasks/``       ``TASK_fastdec``: fairseq's tasks with ``--decoding``, such as
                   ``translation_fastdec``; ``translation_double_token`` with reordered targets
- ``opening.py``   ``fairseq_fastdec.load(...)``: translates text from Python, with checkpoints
                   (``translator.py``) or a bundle (``bundles/``)
- ``serving/``     continuous batching, and the HTTP service
- ``bundles/``     models in one file, which decode without torch and fairseq
- ``hub.py``       fairseq's hub interface, with checked options and less overhead
- ``kept_generators.py``
                   generators shared by calls from Python
- ``decoding/``    the decoding methods, one file each; options; the choice of engine or torch
- ``network/``     decoder steps of models in torch
- ``models/``, ``criterions/``
                   for training: ``blockwise_transformer``, ``double_token_transformer``,
                   ``random_sub_loss``
- ``engine/``      compiled searches and their prepared weights
- ``data/``        orders of target tokens, batches, text encoding
- ``errors.py``    errors in the user's input end a command with one line and exit code 2
- ``mapped_checkpoints.py``, ``memory.py``
                   loading of checkpoints without a second copy in memory
- ``plugin.py``    sets up the plugin and registers it with fairseq
- ``lean_imports.py``
                   imports of fairseq without modules that decoding does not need
- ``faster_fairseq.py``
                   faster replacements for functions of fairseq, with equal results
- ``compat.py``    compatibility with current versions of torch, and fixes of fairseq
- ``wrapping.py``  wraps functions of fairseq
- ``help.py``      ``--help`` and ``--help-all`` of fairseq's commands
- ``noise.py``, ``progress.py``
                   suppresses third-party messages; shows progress within a batch

``import fairseq_fastdec`` registers the plugin with fairseq, with or without ``--user-dir``. If
fairseq is not imported yet, registration waits until it is, since decoding bundles needs neither
fairseq nor torch.
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


# The modules for decoding bundles. All other modules of the package import fairseq; the plugin is
# set up before they are imported, not in the middle of it.
WITHOUT_FAIRSEQ = (
    "__main__", "bundles", "cores", "data.atomic_files", "data.draft_lines", "data.long_words",
    "data.model_files", "data.moses", "data.text", "data.vocabulary", "decoding.generation_options",
    "decoding.registry", "decoding.translation_memory", "engine.kernels.loading",
    "engine.kernels.parts", "engine.rules", "engine.searches", "errors", "known_modules", "lazy",
    "lean_imports", "memory", "noise", "opening", "process", "ray_cluster", "results", "serving",
    "tools.command_line", "tools.distillation.filters", "tools.kept_settings", "tools.translate",
    "tools.translation.arguments", "tools.translation.bundle", "tools.translation.chunks",
    "tools.translation.command", "tools.translation.coordinator",
    "tools.translation.directory_lock", "tools.translation.manifest",
    "tools.translation.output_lines", "tools.translation.pool", "tools.translation.progress_bar",
    "tools.translation.ray_node", "tools.translation.ray_pool", "tools.translation.text_files",
    "tools.translation.worker", "wrapping",
)  # fmt: skip
PACKAGES = (
    "data", "decoding", "engine", "engine.kernels", "tools", "tools.distillation",
    "tools.translation",
)  # fmt: skip


class _Registering:
    """Registers the plugin before fairseq, or a module that needs fairseq, is imported."""

    def find_spec(
        self, name: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        """Called by the import system; ``None`` leaves the search to other finders."""
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
