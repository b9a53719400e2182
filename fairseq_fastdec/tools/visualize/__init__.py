"""DDGviz: what depends on what when a decoder finds several tokens at once.

Santilli et al. (2023), section 3.5. ``command.py`` is ``scripts/ddgviz.py``.

- ``trace.py``     the contract: the steps that a generator reports to an observer
- ``graph.py``     from a trace to the step that found each token, and the dependencies
- ``subwords.py``  the spelling of subwords
- ``document.py``  JSON, written and read
- ``page.py``      one self-contained interactive HTML page
- ``figure.py``    PNG and SVG through matplotlib, with ``layout.py`` and ``fonts.py``
"""

from .graph import Decoded, decoded, edges, frontiers
from .trace import Recorder, SentenceTrace, TraceStep

__all__ = ["Decoded", "Recorder", "SentenceTrace", "TraceStep", "decoded", "edges", "frontiers"]
