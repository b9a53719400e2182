"""Training and decoding in all orders through fairseq's own commands."""

import argparse
import gc
import json
import re

import pytest
import torch
from fairseq import checkpoint_utils

from fairseq_fastdec.orders.special_tokens import EOD
from fairseq_fastdec.tasks.translation_double_token import (
    TranslationDoubleTokenConfig,
    TranslationDoubleTokenTask,
)
from tests.support import tiny
from tests.support.command_line import (
    generate,
    hypotheses,
    interactive,
    preprocess,
    train,
    validate,
)
from tests.support.command_line import scores as score_of
from tests.support.words import write_words

TASK = ("--task", "translation_double_token")
ORDERS = [
    (name, n, arch)
    for name in ("bidirectional", "l2r", "r2l")
    for n, arch in ((2, "double_token_transformer"), (1, "transformer"))
]
BLEU_ARGS = json.dumps({"beam": 2, "max_len_a": 1, "max_len_b": 3})


def order_flags(name, n):
    return (*TASK, "--token-order", name, "--tokens-per-step", n)


def trained(corpus, directory, *arguments, **options):
    train(
        corpus, directory, *arguments, "--criterion", "label_smoothed_cross_entropy",
        "--eval-bleu", "--eval-bleu-args", BLEU_ARGS, "--scoring", "bleu", **options,
    )  # fmt: skip
    return directory / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def double(corpus, tmp_path_factory):
    """The default: two tokens a step, from both ends."""
    directory = tmp_path_factory.mktemp("double")
    return trained(corpus, directory, *TASK, "--arch", "double_token_transformer", updates=250)


def references(printed):
    return {int(i): text for i, text in re.findall(r"(?m)^T-(\d+)\t(.*)$", printed)}


def positional(printed):
    found = re.findall(r"(?m)^P-(\d+)\t(.*)$", printed)
    return {int(i): [float(score) for score in text.split()] for i, text in found}


def reversed_sources(printed):
    found = re.findall(r"(?m)^S-(\d+)\t?(.*)$", printed)
    return {int(i): " ".join(text.split()[::-1]) for i, text in found}


@pytest.mark.parametrize("name, n, arch", ORDERS)
def test_every_order_learns_and_prints_in_the_natural_order(
    corpus, tmp_path, caplog, name, n, arch
):
    """To copy is easy: what comes out must be the reference, in the reference's order."""
    copies = tmp_path / "copies"
    copies.mkdir()
    words = "abcdefgh"
    lines = [[words[(i + j * j) % 8] for j in range(i % 4 + 1)] for i in range(64)]
    for language in ("en", "de"):
        for split in ("train", "valid", "test"):
            write_words(copies / f"{split}.{language}", lines)
    preprocess(
        "-s", "en", "-t", "de", "--joined-dictionary", "--destdir", copies / "bin",
        *(f for s in ("train", "valid", "test") for f in (f"--{s}pref", copies / s)),
    )  # fmt: skip
    flags = order_flags(name, n)
    with caplog.at_level("INFO"):
        path = trained(
            copies / "bin", tmp_path, *flags, "--arch", arch, "--validate-interval", 1000,
            updates=120, lr="6e-3",
        )  # fmt: skip
    bleu = float(re.findall(r"valid on 'valid' subset \|.*? bleu ([\d.]+)", caplog.text)[-1])
    assert "tokens_per_invocation" in caplog.text
    printed = generate(copies / "bin", path, *flags, "--beam", 2, "--max-len-b", 8)
    found, expected = hypotheses(printed), references(printed)
    assert sorted(found) == list(range(64))
    assert expected == {i: " ".join(line) for i, line in enumerate(lines)}
    right = {index for index in found if found[index] == expected[index]}
    assert len(right) > 55 and bleu > 80
    for index, scores in positional(printed).items():
        assert len(scores) == len(found[index].split()) + 1
    scored = generate(copies / "bin", path, *flags, "--score-reference")
    assert hypotheses(scored) == references(scored) == expected
    own, reference = positional(printed), positional(scored)
    for index in right:
        assert own[index] == pytest.approx(reference[index], abs=1e-3)
        assert score_of(printed)[index] == pytest.approx(score_of(scored)[index], abs=1e-3)


def test_the_commands(corpus, double, tmp_path, caplog):
    """fairseq-generate, -interactive and -validate; batches of any size; difficult lines."""
    with caplog.at_level("INFO"):
        alone = generate(corpus, double, *TASK, "--batch-size", 1, "--beam", 3)
        gc.collect()
    assert "double_token decoding: 29 sentences" in caplog.text
    for batch in (("--batch-size", 7), ("--max-tokens", 60)):
        assert hypotheses(generate(corpus, double, *TASK, "--beam", 3, *batch)) == hypotheses(alone)
    assert sorted(hypotheses(alone)) == list(range(29))
    assert all(EOD not in text for text in hypotheses(alone).values())
    assert references(alone) == reversed_sources(alone)
    lines = ["a b c", "", "d ü 世 <eod>", " ".join(["f"] * 1000), "g"]
    printed = interactive(corpus, double, lines, tmp_path, *TASK, "--max-len-b", 30)
    assert list(hypotheses(printed)) == list(range(len(lines)))
    caplog.clear()
    with caplog.at_level("INFO"):
        validate(corpus, double, *TASK, "--eval-bleu", "--eval-bleu-args", BLEU_ARGS)
    assert re.search(r"valid on 'valid' subset \|.*? bleu [1-9]", caplog.text)


def test_the_first_of_the_n_best_is_the_best(corpus, double):
    printed = generate(corpus, double, *TASK, "--beam", 4, "--nbest", 4)
    scores = {}
    for number, score in re.findall(r"(?m)^H-(\d+)\t([^\t]*)\t", printed):
        scores.setdefault(number, []).append(float(score))
    assert all(own == sorted(own, reverse=True) for own in scores.values())
    assert sum(len(own) == 4 for own in scores.values()) > 20


def test_decoding_stats_and_half_the_steps(corpus, double, tmp_path):
    path = tmp_path / "stats.jsonl"
    printed = generate(corpus, double, *TASK, "--beam", 1, "--decoding-stats", path)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(record["id"] for record in records) == list(range(29))
    for record in records:
        m = len(hypotheses(printed)[record["id"]].split())
        assert record["tokens"] == m + 1
        assert record["invocations"] == record["expansions"] == m // 2 + 1


def test_ensembles(corpus, double):
    alone = generate(corpus, double, *TASK)
    twice = generate(corpus, f"{double}:{double}", *TASK)
    assert hypotheses(twice) == hypotheses(alone)


def test_training_goes_on_from_a_checkpoint(corpus, double, caplog):
    with caplog.at_level("INFO"):
        train(
            corpus, double.parent, *TASK, "--arch", "double_token_transformer",
            "--criterion", "label_smoothed_cross_entropy", "--no-save", updates=252,
        )  # fmt: skip
    assert "Loaded checkpoint" in caplog.text and "@ 250 updates" in caplog.text


def test_the_hub(corpus, double):
    models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(double)])
    assert str(task.token_order) == "--token-order bidirectional --tokens-per-step 2"
    assert models[0].decoder.token_order == task.token_order


def test_separate_dictionaries(tmp_path):
    """Only the target dictionary gets <eod>."""
    lines = [["a", "b", "c"][: i % 3 + 1] for i in range(20)]
    write_words(tmp_path / "train.en", lines)
    write_words(tmp_path / "train.de", [[word.upper() + "x" for word in line] for line in lines])
    preprocess(
        "-s", "en", "-t", "de", "--destdir", tmp_path / "bin", "--padding-factor", 1,
        "--trainpref", tmp_path / "train", "--validpref", tmp_path / "train",
        "--testpref", tmp_path / "train",
    )  # fmt: skip
    sizes = [
        "--encoder-embed-dim", "16", "--decoder-embed-dim", "16", "--encoder-layers", "1",
        "--decoder-layers", "1", "--encoder-ffn-embed-dim", "16", "--decoder-ffn-embed-dim", "16",
        "--share-decoder-input-output-embed",
    ]  # fmt: skip
    path = trained(
        tmp_path / "bin", tmp_path, *TASK, "--arch", "double_token_transformer",
        updates=3, sizes=sizes,
    )  # fmt: skip
    before = (tmp_path / "bin" / "dict.de.txt").read_text()
    state = torch.load(path, weights_only=True)["model"]
    assert state["encoder.embed_tokens.weight"].size(0) == 7
    assert state["decoder.embed_tokens.weight"].size(0) == 8
    assert len(hypotheses(generate(tmp_path / "bin", path, *TASK))) == 20
    assert (tmp_path / "bin" / "dict.de.txt").read_text() == before


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command, flags",
    [
        (generate, order_flags("l2r", 2)),
        (generate, order_flags("bidirectional", 1)),
        (validate, order_flags("r2l", 2)),
    ],
)
def test_another_order_than_the_checkpoints(corpus, double, command, flags):
    match = "the checkpoint was trained with --token-order bidirectional --tokens-per-step 2"
    with pytest.raises(ValueError, match=match):
        command(corpus, double, *flags)


def test_a_checkpoint_finds_its_order(corpus, double, baseline, tmp_path):
    """Without --task, in fairseq-generate and -interactive, in the natural order."""
    expected = generate(corpus, double, *order_flags("bidirectional", 2))
    for flags in ((), ("--decoding", "double_token")):
        printed = generate(corpus, double, *flags)
        assert printed.replace("task 'translation", "") == expected
    lines = ["a b c d", "j i"]
    own = interactive(corpus, double, lines, tmp_path)
    assert hypotheses(own) == hypotheses(
        interactive(corpus, double, lines, tmp_path, *order_flags("bidirectional", 2))
    )
    with pytest.raises(ValueError, match="^--prefix-size: with --token-order bidirectional"):
        generate(corpus, double, "--prefix-size", 1)
    with pytest.raises(ValueError, match="^--decoding greedy: .* use --decoding double_token"):
        generate(corpus, double, "--decoding", "greedy")


@pytest.mark.parametrize(
    "flags", [["--decoding-stats", "STATS"], ["--engine-precision", "int8"], ["--keep-model"]]
)
def test_a_checkpoint_finds_its_method_whatever_the_options(corpus, double, tmp_path, flags):
    flags = [str(tmp_path / "stats") if flag == "STATS" else flag for flag in flags]
    expected = generate(corpus, double, "--decoding", "double_token", *flags)
    assert generate(corpus, double, *flags) == expected
    interactive(corpus, double, ["a b c"], tmp_path, *flags)


@pytest.mark.parametrize("flags", [["--stream-buffer", 3], ["--acceptance", "topk"]])
def test_options_of_other_methods_name_the_checkpoints_method(corpus, double, flags):
    with pytest.raises(ValueError, match="does not apply to --decoding double_token; remove it"):
        generate(corpus, double, *flags)


@pytest.mark.parametrize("how", ["--save-dir", "--restore-file"])
def test_training_does_not_go_on_in_another_order(corpus, double, tmp_path, how):
    """Not even where the optimizer starts anew."""
    model = ("--arch", "double_token_transformer", "--no-save")
    folder = double.parent if how == "--save-dir" else tmp_path
    flags = () if how == "--save-dir" else ("--restore-file", double, "--reset-optimizer")
    match = "--token-order l2r .*trained with --token-order bidirectional .*--finetune-from-model"
    with pytest.raises(ValueError, match=match):
        train(corpus, folder, *order_flags("l2r", 2), *model, *flags, updates=252)


def test_training_does_not_go_on_from_a_stock_checkpoint(corpus, baseline, tmp_path):
    flags = (
        "--restore-file", baseline, "--arch", "transformer",
        "--criterion", "label_smoothed_cross_entropy",
    )  # fmt: skip
    match = "--token-order r2l .*trained with --token-order l2r --tokens-per-step 1"
    with pytest.raises(ValueError, match=match):
        train(corpus, tmp_path, *order_flags("r2l", 1), *flags, updates=200)
    train(corpus, tmp_path, *order_flags("l2r", 1), *flags, updates=151)
    assert (tmp_path / "checkpoint_last.pt").exists()


def test_parameters_may_come_from_another_order(corpus, double, tmp_path, caplog):
    model = (*order_flags("r2l", 2), "--arch", "double_token_transformer")
    with caplog.at_level("INFO"):
        train(corpus, tmp_path, *model, "--finetune-from-model", double, updates=2)
    assert f"Loaded checkpoint {double}" in caplog.text
    state = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)
    assert state["task_state"] == {"token_order": "r2l", "tokens_per_step": 2}


def test_a_stock_checkpoint_is_a_beginning(corpus, baseline, tmp_path, caplog):
    """A model that translates learns another order sooner than one that does not."""
    losses = {}
    for name, flags in {"new": (), "begun": ("--finetune-from-model", baseline)}.items():
        caplog.clear()
        with caplog.at_level("DEBUG"):
            path = trained(
                corpus, tmp_path / name, *TASK, "--arch", "double_token_transformer", *flags,
                updates=50,
            )  # fmt: skip
        losses[name] = float(re.findall(r"'valid' subset \| loss ([\d.]+)", caplog.text)[-1])
    assert "the checkpoint is of a model of one token a step" in caplog.text
    assert losses["begun"] < 0.8 * losses["new"]
    assert len(hypotheses(generate(corpus, path, *TASK, "--beam", 2))) == 29


def test_a_stock_checkpoint_is_of_one_order(corpus, baseline, tmp_path):
    stock = generate(corpus, baseline)
    ours = generate(corpus, baseline, *order_flags("l2r", 1), "--decoding", "fairseq")
    assert hypotheses(ours) == hypotheses(stock)
    assert score_of(ours) == score_of(stock)
    with pytest.raises(ValueError, match="trained with --token-order l2r --tokens-per-step 1"):
        interactive(corpus, baseline, ["a"], tmp_path, *order_flags("r2l", 1))


@pytest.mark.parametrize(
    "options, message",
    [
        (("--decoding", "greedy"), "--decoding greedy: .*--decoding double_token"),
        (("--decoding", "fairseq"), "--decoding fairseq: .*--decoding double_token"),
        (("--prefix-size", 1), "--prefix-size: .*--token-order bidirectional"),
        (("--no-repeat-ngram-size", 2), "--no-repeat-ngram-size: .*left to right"),
        (("--sampling", "--beam", 1), "--sampling: .*--decoding double_token"),
        (("--left-pad-target",), "--left-pad-target"),
        (("--load-alignments",), "--load-alignments"),
    ],
)
def test_options_without_a_meaning(corpus, double, options, message):
    with pytest.raises(ValueError, match=message):
        generate(corpus, double, *TASK, *options)


def test_models_of_another_number_of_tokens(corpus, baseline, tmp_path):
    with pytest.raises(ValueError, match="--tokens-per-step 2: --arch transformer predicts one"):
        train(corpus, tmp_path, *TASK, "--arch", "transformer", updates=1)
    with pytest.raises(ValueError, match="--decoding double_token: .*--decoding beam"):
        generate(corpus, baseline, "--decoding", "double_token")


def test_options_of_one_token_a_step_in_another_order():
    task = tiny.double_token_task("r2l", 1)
    model = tiny.build_model(task)
    for flag, options in [("--print-alignment", dict(print_alignment="hard")),
                          ("--constraints", dict(constraints="ordered"))]:  # fmt: skip
        with pytest.raises(ValueError, match=f"{flag}: .*--token-order r2l"):
            task.build_generator([model], argparse.Namespace(beam=2, **options))


def test_two_tokens_a_step_of_a_model_of_one(corpus, baseline):
    """Both ways to ask for them name how to decode the model and how to train another."""
    training = ".*, or train .*--task translation_double_token --arch .* --finetune-from-model CHE"
    with pytest.raises(ValueError, match="one token a step; use --decoding beam" + training):
        generate(corpus, baseline, "--decoding", "double_token")
    decode = "trained with --token-order l2r --tokens-per-step 1; decode it without --task"
    with pytest.raises(ValueError, match=decode + training):
        generate(corpus, baseline, "--task", "translation_double_token")


def test_the_task_adds_its_token_once():
    words = tiny.dictionary(20)
    for _ in range(2):
        task = TranslationDoubleTokenTask(TranslationDoubleTokenConfig(), words, words)
    assert words.symbols.count(EOD) == 1
    assert str(task.cfg.decoding) == "double_token"
    single = TranslationDoubleTokenConfig(tokens_per_step=1)
    task = TranslationDoubleTokenTask(single, tiny.dictionary(3), tiny.dictionary(3))
    assert EOD not in task.target_dictionary and str(task.cfg.decoding) == "beam"
