"""The task through fairseq's own commands: every command, every kind of bad input."""

import gc
import json
import re
from types import SimpleNamespace

import pytest
import torch
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.models.transformer import TransformerModel

from fairseq_fastdec.tasks.translation_fastdec import (
    TranslationFastdecConfig,
    TranslationFastdecTask,
)
from tests.support import command_line, tiny
from tests.support.command_line import generate, hypotheses, interactive, scores, train, validate

JACOBI = ["jacobi", "gs_jacobi", "hybrid_jacobi"]


@pytest.fixture(scope="module")
def reference(corpus, baseline):
    """fairseq's own --beam 1 on the baseline."""
    return generate(corpus, baseline, "--beam", 1, "--batch-size", 8)


@pytest.mark.parametrize("batch", [("--batch-size", 1), ("--batch-size", 32), ("--max-tokens", 60)])
@pytest.mark.parametrize("decoding", ["greedy", "blockwise", *JACOBI, "lookahead"])
def test_generate_gives_the_pretrained_models_translations(
    corpus, blockwise, reference, decoding, batch
):
    """All of them: 29 sentences, which is no multiple of fairseq's batch size multiple."""
    printed = generate(corpus, blockwise, "--decoding", decoding, *batch)
    assert hypotheses(printed) == hypotheses(reference)
    assert sorted(hypotheses(printed)) == list(range(29))
    own, theirs = scores(printed), scores(reference)
    assert all(abs(own[index] - theirs[index]) < 1e-4 for index in theirs)


def test_the_default_is_fairseqs_own_generator(corpus, baseline):
    printed = generate(corpus, baseline, "--beam", 3, "--nbest", 3, "--max-tokens", 100)
    stock = command_line.run(
        command_line.generate_cli, corpus, "--path", baseline, "--cpu", "--task", "translation",
        "--beam", 3, "--nbest", 3, "--max-tokens", 100, "--num-workers", 0, "--no-progress-bar",
    )  # fmt: skip
    assert hypotheses(printed) == hypotheses(stock)
    assert len(re.findall(r"(?m)^H-", printed)) == 3 * 29


def test_blockwise_training_learned_something(corpus, blockwise, caplog):
    with caplog.at_level("INFO"):
        generate(corpus, blockwise, "--decoding", "blockwise", "--batch-size", 8)
        gc.collect()  # fairseq's frames, kept by exceptions in cycles, hold the generator
    summary = next(r.message for r in caplog.records if r.message.startswith("blockwise decoding"))
    assert "29 sentences" in summary
    assert float(re.search(r"mean accepted block size ([\d.]+)", summary).group(1)) > 1.1
    assert re.search(r"acceptance p_2=[\d.]+ p_3=[\d.]+$", summary)


def test_decoding_stats(corpus, blockwise, tmp_path):
    path = tmp_path / "stats.jsonl"
    printed = generate(corpus, blockwise, "--decoding", "blockwise", "--decoding-stats", path)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(record["id"] for record in records) == list(range(29))
    for record in records:
        n_tokens = len(hypotheses(printed)[record["id"]].split()) + 1
        assert record["tokens"] == n_tokens == sum(record["blocks"])
        assert len(record["blocks"]) <= record["invocations"] <= len(record["blocks"]) + 1
        assert max(record["blocks"]) <= 3


@pytest.mark.parametrize("decoding", ["greedy", "lookahead", "auto"])
def test_the_log_has_the_costs_and_nothing_that_asks_for_no_action(
    corpus, blockwise, decoding, caplog
):
    with caplog.at_level("INFO"):
        generate(corpus, blockwise, "--decoding", decoding)
        gc.collect()
    said = [r.getMessage() for r in caplog.records if r.name.startswith("fairseq_fastdec")]
    # Generators of earlier tests may go here, too, and say what they cost.
    assert said and all(re.match(r"\w+ decoding: \d+ sentences, ", line) for line in said)


def test_stats_that_cannot_be_written(corpus, blockwise, tmp_path):
    with pytest.raises(ValueError, match="--decoding-stats .*cannot be written"):
        generate(corpus, blockwise, "--decoding", "greedy", "--decoding-stats", tmp_path)


def test_the_options_of_the_jacobi_methods(corpus, baseline, reference, tmp_path):
    """Every one of them, as typed."""
    for options in (
        ["jacobi", "--oracle-length", "--guess", "copy"],
        ["gs_jacobi", "--jacobi-block-size", 5, "--guess", "previous"],
        ["hybrid_jacobi", "--parallel-len-a", 0.5, "--parallel-len-b", 2, "--guess", "source"],
        ["lookahead", "--lookahead-window", 3, "--ngram-pool", "sentence", "--ngram-order", 3],
    ):
        path = tmp_path / options[0]
        printed = generate(corpus, baseline, "--decoding", *options, "--decoding-stats", path)
        assert hypotheses(printed) == hypotheses(reference)
        for record in map(json.loads, path.read_text().splitlines()):
            assert record["tokens"] == sum(record["blocks"])
            assert record["invocations"] <= record["tokens"] + 2


def test_ensembles_and_prefixes(corpus, baseline, blockwise):
    paths = f"{baseline}:{blockwise}"
    theirs = generate(corpus, paths, "--beam", 1, "--prefix-size", 2)
    for decoding in ("greedy", "lookahead"):
        ours = generate(corpus, paths, "--decoding", decoding, "--prefix-size", 2)
        assert hypotheses(ours) == hypotheses(theirs)


@pytest.mark.parametrize("decoding", ["greedy", "blockwise", "jacobi", "lookahead"])
def test_interactive_with_difficult_lines(corpus, blockwise, tmp_path, decoding):
    """Empty lines, unknown symbols, a line of 1,000 words: translated as fairseq does, in order."""
    lines = ["a b c", "", "d ü 世 e", " ".join(["f"] * 1000), "   ", "g"]
    theirs = interactive(corpus, blockwise, lines, tmp_path, "--beam", 1)
    for buffering in ((), ("--buffer-size", 4, "--batch-size", 3)):
        ours = interactive(corpus, blockwise, lines, tmp_path, "--decoding", decoding, *buffering)
        assert hypotheses(ours) == hypotheses(theirs)
        assert list(hypotheses(ours)) == list(range(len(lines)))


def test_a_line_beyond_the_positions_is_an_error_that_says_so(corpus, blockwise, tmp_path):
    lines = [" ".join(["f"] * 2000)]
    with pytest.raises(Exception, match="is invalid.*max_positions"):
        interactive(corpus, blockwise, lines, tmp_path, "--decoding", "blockwise")


def test_an_empty_input(corpus, blockwise, tmp_path):
    assert hypotheses(interactive(corpus, blockwise, [], tmp_path, "--decoding", "greedy")) == {}


def test_an_empty_test_set_is_an_error_that_says_so(corpus, blockwise, tmp_path):
    for language in ("en", "de"):
        (tmp_path / f"test.{language}").touch()
    command_line.preprocess(
        "-s", "en", "-t", "de", "--testpref", tmp_path / "test", "--destdir", tmp_path / "bin",
        "--srcdict", corpus / "dict.en.txt", "--tgtdict", corpus / "dict.de.txt",
    )  # fmt: skip
    with pytest.raises(ValueError, match="no sentences"):
        generate(tmp_path / "bin", blockwise, "--decoding", "greedy")


def test_a_missing_checkpoint(corpus, tmp_path):
    with pytest.raises(OSError, match="nothing.pt"):
        generate(corpus, tmp_path / "nothing.pt", "--decoding", "greedy")


def test_blockwise_on_a_model_without_heads(corpus, baseline):
    with pytest.raises(ValueError, match="the model has no prediction heads"):
        generate(corpus, baseline, "--decoding", "blockwise")


def test_distance_on_words(corpus, blockwise):
    with pytest.raises(ValueError, match="vocabulary must consist of integers"):
        generate(corpus, blockwise, "--decoding", "blockwise", "--acceptance", "distance")


def test_a_target_longer_than_the_positions(corpus, tmp_path):
    with pytest.raises(Exception, match="are invalid|is invalid"):
        train(
            corpus, tmp_path, "--task", "translation", "--arch", "blockwise_transformer",
            "--criterion", "random_sub_loss", "--max-target-positions", 5, updates=1,
        )  # fmt: skip


def test_eval_bleu_during_training_follows_the_weights(corpus, tmp_path, caplog):
    """The generator is built once, before training; it must see the weights of each validation."""

    def validations(decoding):
        caplog.clear()
        with caplog.at_level("INFO"):
            train(
                corpus, tmp_path / decoding, "--task", "translation", "--eval-bleu",
                "--arch", "blockwise_transformer", "--block-size", 2, "--criterion",
                "random_sub_loss", "--validate-interval", 4, "--decoding", decoding,
                "--eval-bleu-args", '{"beam": 1, "max_len_b": 12}',
                "--best-checkpoint-metric", "bleu", "--maximize-best-checkpoint-metric",
                updates=108,
            )  # fmt: skip
        return [r.getMessage() for r in caplog.records if "| bleu " in r.getMessage()]

    def bleu(lines):
        return [re.search(r"\| bleu ([\d.]+)", line).group(1) for line in lines]

    ours = validations("blockwise")
    assert bleu(ours) == bleu(validations("fairseq"))
    assert len(set(bleu(ours))) >= 3
    assert all("tokens_per_invocation" in line and "accuracy_p2" in line for line in ours)

    # BLEU counts are numpy arrays in the checkpoint's meters: it must resume all the same.
    assert len(validations("blockwise")) == 1
    assert "Loaded checkpoint" in caplog.text


@pytest.mark.parametrize("autocast", [False, True])
def test_cpu_autocast_trains_in_bfloat16_and_validates_in_fp32(autocast):
    words = tiny.dictionary(20)
    task = TranslationFastdecTask(TranslationFastdecConfig(cpu_autocast=autocast), words, words)
    model = tiny.stir(tiny.build_model(tiny.task(20), dropout=0))
    computed = []
    model.decoder.layers[0].fc1.register_forward_hook(lambda *call: computed.append(call[2].dtype))
    sample = {**tiny.random_batch(tiny.task(20), [3, 8, 5]), "ntokens": 19}
    criterion = CrossEntropyCriterion(task, sentence_avg=False)
    optimizer = SimpleNamespace(backward=lambda loss: loss.backward())
    trained, _, _ = task.train_step(sample, model, criterion, optimizer, 1)
    validated, _, _ = task.valid_step(sample, model, criterion)
    assert computed == [torch.bfloat16 if autocast else torch.float32, torch.float32]
    gradients = [p.grad.dtype for p in model.parameters() if p.grad is not None]
    assert gradients and set(gradients) == {torch.float32}
    assert trained.item() == pytest.approx(validated.item(), rel=1e-2 if autocast else 1e-6)
    assert (trained.item() == pytest.approx(validated.item(), rel=1e-6)) != autocast


def test_cpu_autocast_of_a_model_elsewhere():
    words = tiny.dictionary(20)
    task = TranslationFastdecTask(TranslationFastdecConfig(cpu_autocast=True), words, words)
    model = tiny.build_model(tiny.task(20)).to("meta")
    with pytest.raises(ValueError, match="--cpu-autocast: the model is on meta; use --amp"):
        task.train_step({}, model, None, None, 0)


def test_cpu_autocast_on_the_command_line(corpus, tmp_path):
    train(
        corpus, tmp_path, "--task", "translation", "--arch", "transformer",
        "--criterion", "label_smoothed_cross_entropy", "--cpu-autocast", updates=20,
    )  # fmt: skip
    state = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)
    assert state["cfg"]["model"].cpu_autocast is True
    assert {value.dtype for value in state["model"].values()} == {torch.float32}


def test_options_for_one_generator(corpus, blockwise, tmp_path, caplog):
    """--eval-bleu-args may name the method."""
    with caplog.at_level("INFO"):
        train(
            corpus, tmp_path, "--task", "translation", "--arch", "transformer",
            "--eval-bleu", "--eval-bleu-args", '{"beam": 1, "decoding": "greedy"}', updates=2,
        )  # fmt: skip
    assert "tokens_per_invocation 1" in caplog.text


def test_validate(corpus, blockwise, caplog):
    with caplog.at_level("INFO"):
        validate(corpus, blockwise, "--task", "translation", "--valid-subset", "valid")
    assert "accuracy_p3" in caplog.text


def test_score_reference(corpus, blockwise):
    theirs = generate(corpus, blockwise, "--score-reference")
    ours = generate(corpus, blockwise, "--score-reference", "--decoding", "blockwise")
    assert hypotheses(ours) == hypotheses(theirs) and scores(ours) == scores(theirs)


def test_statistics_of_nothing(corpus, blockwise, tmp_path):
    options = ["--score-reference", "--decoding", "blockwise", "--decoding-stats", tmp_path / "f"]
    with pytest.raises(ValueError, match="--decoding-stats .*: --score-reference decodes n"):
        generate(corpus, blockwise, *options)


def test_the_stream_buffer_is_no_longer_than_the_data(corpus, baseline):
    everything = generate(corpus, baseline, "--decoding", "streaming", "--beam", 3)
    more = ["--decoding", "streaming", "--beam", 3, "--stream-buffer", 10**20]
    assert hypotheses(generate(corpus, baseline, *more)) == hypotheses(everything)
    with pytest.raises(ValueError, match="--stream-buffer 0: must be at least 1"):
        generate(corpus, baseline, "--decoding", "streaming", "--stream-buffer", 0)


def test_the_hub_interface(corpus, baseline, blockwise):
    def translations(path, **options):
        hub = TransformerModel.from_pretrained(
            str(path.parent), path.name, str(corpus), tokenizer=None, bpe=None,
            task="translation",
        )  # fmt: skip
        sentences = ["a b c d", "j i", "c a c a c"]
        return hub.translate(sentences, beam=1, **options)

    expected = translations(baseline)
    assert translations(blockwise, decoding="greedy") == expected
    assert translations(blockwise, decoding="blockwise", acceptance="exact") == expected


def test_fp16_weights_are_refused_nowhere(corpus, blockwise, tmp_path):
    """A half-precision checkpoint decodes like the same weights in fp32."""
    state = torch.load(blockwise, weights_only=True)
    state["model"] = {key: value.half() for key, value in state["model"].items()}
    torch.save(state, tmp_path / "half.pt")
    ours = generate(corpus, tmp_path / "half.pt", "--decoding", "blockwise")
    theirs = generate(corpus, tmp_path / "half.pt", "--beam", 1)
    assert hypotheses(ours) == hypotheses(theirs)
