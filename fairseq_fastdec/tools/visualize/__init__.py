"""DDGviz: what depends on what when a decoder finds several tokens at once.

Santilli et al. (2023), section 3.5. ``command.py`` is ``scripts/ddgviz.py``.

- ``trace.py``     what a generator tells an observer: the contract
- ``graph.py``     from a trace to what was found when, in parallel or not, and the dependencies
- ``subwords.py``  how subwords are written
- ``document.py``  JSON, written and read
- ``page.py``      one self-contained interactive HTML page
- ``figure.py``    PNG and SVG through matplotlib, with ``layout.py`` and ``fonts.py``
"""

from .graph import Decoded, decoded, edges, frontiers
from .trace import Recorder, SentenceTrace, Step

__all__ = ["Decoded", "Recorder", "SentenceTrace", "Step", "decoded", "edges", "frontiers"]
