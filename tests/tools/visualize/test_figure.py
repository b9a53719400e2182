"""PNG and SVG: what has to be on the picture is on it, once and legibly."""

import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from tests.support import after_import, skips

skips.needs("matplotlib")

from fairseq_fastdec.tools.visualize import SentenceTrace, TraceStep, figure  # noqa: E402
from tests.support import simulation  # noqa: E402


def texts(path):
    """All texts of an SVG, without the direction marks."""
    root = ElementTree.parse(path).getroot()
    return [
        "".join(node.itertext()).strip().strip("\u200f")
        for node in root.iter("{http://www.w3.org/2000/svg}text")
    ]


def greedy_trace(tokens):
    steps = [TraceStep(n, [], [token], [0.875], 1) for n, token in enumerate(tokens)]
    return SentenceTrace(0, ["the", "source", "</s>"], tokens, steps, "greedy")


def draw(trace, tmp_path):
    figure.save(trace, tmp_path / "picture.svg")
    return texts(tmp_path / "picture.svg")


def test_png(tmp_path):
    figure.save(simulation.jacobi(simulation.memory([0, 1, 0, 2])), tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_labels_probabilities_and_source_are_text(tmp_path):
    tokens = ["Größ@@", "▁über", "$x_1$", "<b>&", "\x01", "שלום@@", "</s>"]
    drawn = draw(greedy_trace(tokens), tmp_path)
    for label in ["Größ@@", "▁über", "$x_1$", "<b>&", "\ufffd", "שלום@@", "</s>"]:
        assert drawn.count(label) == 1
    assert drawn.count("0.88") == len(tokens)
    assert "the source" in drawn
    assert "Sentence 1, greedy: 7 tokens in 7 decoder invocations, 0 decoded in parallel" in drawn


def test_words_stand_below_their_pieces(tmp_path):
    trace = greedy_trace(["Rah@@", "men@@", "vorlage", "</s>"])
    assert "Rahmenvorlage" not in draw(trace, tmp_path)
    drawn = draw(replace(trace, source=["fra@@", "me", "</s>"], subwords="join"), tmp_path)
    assert {"Rah", "men", "vorlage", "Rahmenvorlage", "frame", "</s>"} <= set(drawn)
    drawn = draw(replace(trace, subwords="mark"), tmp_path)
    assert {"Rah·", "men·", "vorlage"} <= set(drawn) and "Rahmenvorlage" not in drawn


def test_words_across_panels_are_in_each(tmp_path):
    pieces = [f"{n:02}-------@@" for n in range(20)]
    drawn = draw(replace(greedy_trace([*pieces, "end"]), subwords="join"), tmp_path)
    word = "".join(piece[:-2] for piece in pieces) + "end"
    starts = [text for text in drawn if len(text) > 9 and word.startswith(text.rstrip("…"))]
    assert len(starts) == 2


@pytest.mark.parametrize("n_words", [15, 40, 70])
def test_the_last_column_is_visible_at_1400_pixels(tmp_path, n_words):
    figure.save(greedy_trace(["Auswahlfenster"] * n_words), tmp_path / "a.png")
    width = int.from_bytes((tmp_path / "a.png").read_bytes()[16:20], "big")
    assert 1000 < width <= 1400


def test_wrong_answers_are_named(tmp_path):
    steps = [
        TraceStep(0, ["?"], ["a", "other"], [0.5, 0.25], 1),
        TraceStep(1, [], ["b"], [0.75], 1),
    ]
    drawn = draw(SentenceTrace(0, [], ["a", "b"], steps), tmp_path)
    assert {"0.50", "0.25", "0.75", "other", "not the final token"} <= set(drawn)
    assert "proposed, and rejected" not in drawn


def test_right_guesses_are_counted(tmp_path):
    steps = [
        TraceStep(0, ["a", "?"], ["a", "b", "x"], [0.5] * 3, 2),
        TraceStep(2, [], ["c"], [0.5], 1),
    ]
    drawn = draw(SentenceTrace(0, [], ["a", "b", "c"], steps, "lookahead"), tmp_path)
    assert "final token, guessed in advance and confirmed in this step" in drawn
    assert any(text.endswith("0 decoded in parallel, 1 guessed") for text in drawn)


def test_failed_proposals_are_named(tmp_path):
    steps = [
        TraceStep(0, [], ["a"], [0.5], 1),
        TraceStep(1, ["no", "way"], ["b", "so", "so"], [0.75, 0.125, 0.125], 1),
        TraceStep(2, [], ["c"], [0.5], 1),
    ]
    drawn = draw(SentenceTrace(0, [], ["a", "b", "c"], steps, "blockwise"), tmp_path)
    assert {"✗ no", "way", "proposed, and rejected", "not used: after a rejected proposal"} <= set(
        drawn
    )
    assert "0.12" not in drawn and "so" not in drawn


@pytest.mark.parametrize("sliding", [True, False])
def test_long_sentences_wrap(tmp_path, sliding):
    short = simulation.jacobi(simulation.memory([1] * 5), 100, sliding)
    long = simulation.jacobi(simulation.memory([1] * 70), 100, sliding)
    figure.save(short, tmp_path / "short.svg")
    figure.save(long, tmp_path / "long.svg")
    assert texts(tmp_path / "short.svg").count("step") == 1
    assert texts(tmp_path / "long.svg").count("step") == 4
    width = ElementTree.parse(tmp_path / "long.svg").getroot().get("width")
    assert float(width.removesuffix("pt")) / 72 < 15


def test_left_out_steps_are_counted(tmp_path):
    # The last panel's tokens are guessed at once, and wait for the frontier.
    trace = simulation.jacobi(simulation.memory([1] * 40 + [0] * 30), 100)
    assert any(text.startswith("⋮") for text in draw(trace, tmp_path))


def test_the_same_trace_gives_the_same_bytes(tmp_path):
    trace = simulation.jacobi(simulation.memory([0, 1, 1]))
    for name in ("a.svg", "b.svg", "a.png", "b.png"):
        figure.save(trace, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_without_matplotlib_the_error_names_the_extra():
    program = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import fairseq_fastdec.tools.visualize.page\n"
        "import fairseq_fastdec.tools.visualize.figure"
    )
    done = after_import.run(program)
    assert "pip install 'fastdec-runtime[viz]'" in done.stderr.splitlines()[-1]
