"""Fast decoding for fairseq sequence-to-sequence models: ``python -m fairseq_fastdec``.

The rooms of the package, from the top layer down (docs/architecture.md):

- ``__main__.py``  ``python -m fairseq_fastdec``: the command line
- ``plugin.py``    sets up the plugin and registers it with fairseq
- ``tools/``       commands for data, distillation and figures
- ``serving/``     the HTTP service
- ``corpora/``     the command ``translate``: text files on all cores, resumable
- ``tasks/``       fairseq's tasks with ``--decoding``, and ``translation_double_token``
- ``checkpoints/`` translation from Python with checkpoints, and fairseq's hub interface
- ``importing/``   models of other programs: Hugging Face's classes, Marian's and Firefox's files
- ``decoding/``    the decoding methods, one file each; options; the choice of engine or torch
- ``network/``     decoder steps of models in torch
- ``models/``, ``criterions/``
                   for training: ``blockwise_transformer``, ``double_token_transformer``,
                   ``random_sub_loss``
- ``packing/``     from modules of fairseq to parts of the engine
- ``orders/``      orders of target tokens
- ``translating/`` ``fairseq_fastdec.load(...)``: translates text, with batches that sentences of
                   many callers share; bundles, which decode without torch and fairseq
- ``engine/``      compiled searches
- ``fairseq_patches/``
                   changes to fairseq: fixes, faster functions, ``--help``
- ``data/``        files of text and models
- ``processes/``   streams, messages, errors and memory of a command's process

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

from .processes import lazy
from .processes.known_modules import known

if TYPE_CHECKING:
    from .translating.opening import load
    from .translating.results import SentenceError, Translation
    from .translating.translator import Translator

__version__ = "0.1.0"

__all__ = ["SentenceError", "Translation", "Translator", "load"]

__getattr__ = lazy.names(
    __name__,
    {
        "load": ".translating.opening",
        "SentenceError": ".translating.results",
        "Translation": ".translating.results",
        "Translator": ".translating.translator",
    },
)


# The rooms that need no fairseq, or import it when they are used. The plugin is set up before a
# module of another room is imported, not in the middle of it.
WITHOUT_FAIRSEQ = (
    "__main__", "corpora", "data", "engine", "importing", "processes", "serving", "translating"
)  # fmt: skip

# What decoding bundles does not need.
OPTIONAL = ("torch", "fairseq")


class _Registering:
    """Registers the plugin before fairseq, or a module that needs fairseq, is imported."""

    def find_spec(
        self, name: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        """Called by the import system; ``None`` leaves the search to other finders.

        Raises:
            ModuleNotFoundError: if torch or fairseq is needed and not installed.
        """
        package, _, own = name.partition(".")
        room = own.partition(".")[0]
        needs_fairseq = package == __name__ and room not in (*WITHOUT_FAIRSEQ, "plugin")
        for needed in OPTIONAL if needs_fairseq else (name,) if name in OPTIONAL else ():
            others = (finder for finder in sys.meta_path if finder is not self)
            if not any(finder.find_spec(needed, None) for finder in others):
                told = f"{needed} is not installed, without which only bundles can be decoded: "
                remedy = "pip install 'fastdec-runtime[fairseq]'"
                raise ModuleNotFoundError(told + remedy, name=needed)
        if name != "fairseq" and not needs_fairseq:
            return None
        sys.meta_path.remove(self)
        importlib.import_module(".plugin", __name__)
        return known(name) if name in sys.modules else None


if "fairseq" in sys.modules:
    importlib.import_module(".plugin", __name__)
else:
    sys.meta_path.insert(0, _Registering())
