"""Long sentences become panels in which every column has room for its label."""

from hypothesis import given
from hypothesis import strategies as st

from fairseq_fastdec.tools.visualize import decoded, frontiers, layout
from tests.support import simulation


def counting(n):
    """A decoder that counts to n, and guesses every third token without looking."""

    def next_token(prefix):
        position = len(prefix)
        if position >= n:
            return simulation.EOS
        right = position % 3 == 0 or prefix[-1] == str(position - 1)
        return str(position) if right else "wrong"

    return next_token


@given(
    st.integers(0, 60), st.sampled_from([0.2, 0.5, 1.0, 20.0]), st.floats(3.0, 12.0), st.booleans()
)
def test_panels_hold_every_token_and_step(n, label_width, panel_width, sliding):
    trace = simulation.jacobi(counting(n), 100, sliding)
    widths = [label_width] * len(trace.tokens)
    panels = layout.panels(trace, widths, panel_width)
    assert panels[0].start == 0 and panels[-1].end == len(trace.tokens)
    assert all(a.end == b.start < b.end for a, b in zip(panels, panels[1:]))
    found, settled = decoded(trace), frontiers(trace)
    for panel in panels:
        assert panel.width <= panel_width or panel.end - panel.start == 1
        columns = [b - a for a, b in zip(panel.edges, panel.edges[1:])]
        assert min(columns) > label_width
        shown = set(panel.rows)
        assert {token.step for token in found[panel.start : panel.end]} <= shown
        for step, (before, after) in enumerate(zip([0, *settled], settled)):
            moves_here = after > before and after > panel.start and before < panel.end
            assert step in shown or not moves_here


def test_a_short_sentence_is_one_panel():
    trace = simulation.jacobi(counting(10))
    assert [(panel.start, panel.end) for panel in layout.panels(trace, [0.3] * 11)] == [(0, 11)]


def test_70_tokens_are_about_even_panels():
    trace = simulation.jacobi(counting(70), 100)
    sizes = [panel.end - panel.start for panel in layout.panels(trace, [0.4] * 71, 13.0)]
    assert len(sizes) == 3 and max(sizes) - min(sizes) <= 2


def test_labels_are_shortened_only_beyond_reading():
    assert layout.label("Donaudampfschiff@@") == "Donaudampfschiff@@"
    assert layout.label("h" * 60) == "h" * 23 + "…"
    assert layout.shortened("abc", lambda text: False) == "…"
