"""What a generator tells the recorder comes out sentence by sentence."""

import torch

from fairseq_fastdec.tools.visualize import Recorder, SentenceTrace, TraceStep


def tell(recorder, sentences, first, drafts, answers, settled, widths=None):
    probabilities = torch.full((len(sentences), len(answers[0])), 0.25)
    columns = (sentences, first, drafts, answers)
    recorder(
        *(torch.tensor(column) for column in columns),
        probabilities.log(),
        torch.tensor(settled),
        None if widths is None else torch.tensor(widths),
    )


def test_rows_are_sorted_by_sentence_and_cut_to_their_width():
    recorder = Recorder()
    tell(recorder, [0, 1], [0, 0], [[1, 1], [1, 1]], [[5, 6, 7], [8, 9, 9]], [1, 9], [3, 2])
    tell(recorder, [1], [2], [[4]], [[3, 2]], [2])
    assert recorder.take(1) == [
        TraceStep(0, [1], [8, 9], [0.25, 0.25], 2),
        TraceStep(2, [4], [3, 2], [0.25, 0.25], 2),
    ]
    assert recorder.take(0) == [TraceStep(0, [1, 1], [5, 6, 7], [0.25] * 3, 1)]
    assert recorder.take(0) == []


def test_names():
    numbers = SentenceTrace(3, [1], [2, 1], [TraceStep(0, [2], [2, 1], [0.5, 0.5], 2)], "blockwise")
    strings = SentenceTrace(
        3, ["s1"], ["t2", "t1"], [TraceStep(0, ["t2"], ["t2", "t1"], [0.5, 0.5], 2)], "blockwise"
    )
    assert numbers.named("s{}".format, "t{}".format) == strings


def test_names_end_with_the_output():
    step = TraceStep(0, [3, 9], [2, 9, 9], [0.5, 0.25, 0.125], 3)
    named = SentenceTrace(0, [1], [2], [step, TraceStep(1, [], [9], [0.5], 1)]).named(str, str)
    assert named.steps == [TraceStep(0, [], ["2"], [0.5], 1), TraceStep(1, [], ["9"], [0.5], 1)]
