"""DDGviz: visualises the dependencies between tokens in parallel decoding.

Santilli et al. (2023), section 3.5. ``python -m fairseq_fastdec ddgviz`` is the command.

- ``trace.py`` the steps that a generator reports to an observer
- ``graph.py`` the step in which each token was found, and the dependencies
- ``subwords.py`` the spelling of subwords
- ``document.py`` reads and writes traces as JSON
- ``page.py`` one self-contained interactive HTML page
- ``figure.py`` PNG and SVG through matplotlib, with ``layout.py`` and ``fonts.py``
"""

from .graph import Decoded, decoded, edges, frontiers
from .trace import Recorder, SentenceTrace, TraceStep

__all__ = ["Decoded", "Recorder", "SentenceTrace", "TraceStep", "decoded", "edges", "frontiers"]
