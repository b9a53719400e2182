"""What a worker loads: its sentences, its task and its checkpoint."""

from tests.support import command_line


def test_only_the_first_sentences(worker):
    for options in ("--decoding greedy", "--decoding streaming"):
        result = worker(options, 4, sentences=5).decode(4)
        assert sorted(result.translations) == [0, 1, 2, 3, 4]
    assert len(worker("--decoding greedy", 4, sentences=99).sentences) == 29


def test_a_method_can_have_another_task_and_checkpoint(worker, corpus, tmp_path):
    double = "--task translation_double_token"
    command_line.train(
        corpus, tmp_path, *double.split(), "--arch", "double_token_transformer",
        "--criterion", "label_smoothed_cross_entropy", updates=2,
    )  # fmt: skip
    loaded = worker(f"{double} --beam 2 --max-len-b 9 --path '{tmp_path}/checkpoint_last.pt'", 8)
    plain = worker("--decoding greedy --max-len-b 9", 8)
    result, other = loaded.decode(8), plain.decode(8)
    assert loaded.runner.beam_width == 2
    assert list(result.translations) == list(other.translations)  # the same batches, in order
    assert result.invocations < other.invocations
    assert [loaded.corpus.reference(n) for n in range(29)] == [
        plain.corpus.reference(n) for n in range(29)
    ]
