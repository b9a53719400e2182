"""``--user-dir`` and ``--decoding`` are enough; without ``--decoding`` everything is fairseq's."""

import pytest
import torch

from tests.support import after_import, skips, stock_commands, tiny
from tests.support.command_line import (
    PLUGIN,
    generate,
    hypotheses,
    interactive,
    train,
)

SIZES = ("coder_embed_dim", "coder_ffn_embed_dim", "coder_layers", "coder_attention_heads")
LINES = ["a b c d", "j i", "h"]


def printed_by(command, *arguments):
    """What a command of fairseq's prints in a process of its own, but for its log."""
    done = after_import.run_command(command, *arguments, TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD="1")
    assert done.returncode == 0, done.stderr
    return without_log(done.stdout)


def without_log(printed):
    return [line for line in printed.splitlines() if " | INFO | " not in line]


@pytest.mark.skipif(tiny.OLD_FAIRSEQ, reason=skips.STOCK_0_12_2)
def test_without_decoding_the_output_is_fairseqs_to_the_byte(corpus, baseline):
    options = [corpus, "--path", baseline, "--cpu", "--no-progress-bar"]
    options += ["--beam", 3, "--nbest", 2, "--batch-size", 5, "--required-batch-size-multiple", 1]
    theirs = stock_commands.generate(corpus, baseline, *options[5:])
    with_plugin = printed_by("generate", *options, "--user-dir", PLUGIN)
    assert with_plugin == without_log(theirs)
    assert sum(line.startswith("H-") for line in with_plugin) == 58


def test_two_flags(corpus, baseline, tmp_path):
    """In fairseq-generate, -interactive and -validate, as COMMON has only --user-dir besides."""
    greedy = generate(corpus, baseline, "--beam", 1)
    for decoding in ("greedy", "lookahead"):
        assert hypotheses(generate(corpus, baseline, "--decoding", decoding)) == hypotheses(greedy)
    own = interactive(corpus, baseline, LINES, tmp_path, "--decoding", "greedy")
    assert hypotheses(own) == hypotheses(
        interactive(corpus, baseline, LINES, tmp_path, "--beam", 1)
    )
    printed_by(
        "validate", corpus, "--path", baseline, "--cpu", "--task", "translation", "--max-tokens",
        400, "--user-dir", PLUGIN, "--decoding", "greedy",
    )  # fmt: skip


def test_training_with_bleu(corpus, baseline, tmp_path, caplog):
    with caplog.at_level("INFO"):
        train(
            corpus, tmp_path, "--arch", "transformer", "--finetune-from-model", baseline,
            "--decoding", "greedy", "--eval-bleu", "--eval-bleu-detok", "space", updates=1,
        )  # fmt: skip
    assert "tokens_per_invocation 1" in caplog.text


@pytest.mark.skipif(tiny.OLD_FAIRSEQ, reason=skips.HYDRA_1_0)
@pytest.mark.parametrize("decoding", ["fairseq", "greedy"])
def test_hydra(corpus, baseline, tmp_path, decoding):
    """hydra makes its configuration before it imports --user-dir: new options need a plus."""
    overrides = [
        "task=translation", f"task.data={corpus}", "task.source_lang=en", "task.target_lang=de",
        "task.eval_bleu=true", f"common.user_dir={PLUGIN}",
        f"+task.decoding={decoding}", "criterion=cross_entropy",
        "optimizer=adam", "lr_scheduler=fixed", "optimization.lr=[1e-9]",
        "optimization.max_update=1", "dataset.max_tokens=400", "dataset.num_workers=0",
        "common.cpu=true", "common.log_format=simple", f"checkpoint.save_dir={tmp_path}/save",
        f"hydra.run.dir={tmp_path}/run",
        # The thread that reads batches ahead may abort the process if it still runs at the end.
        "dataset.data_buffer_size=0",
    ]  # fmt: skip
    # Not one of the models that hydra knows; its options are those of the checkpoint.
    state = torch.load(baseline, weights_only=True)
    overrides += [
        f"++model.{name}={value}"
        for name, value in [("_name", "transformer"), *vars(state["cfg"]["model"]).items()]
        if name in ("_name", "share_all_embeddings") or name.endswith(SIZES)
    ]
    done = after_import.run_command("hydra_train", *overrides, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    log = (
        done.stdout
        + done.stderr
        + "".join(path.read_text() for path in (tmp_path / "run").rglob("*.log"))
    )
    assert ("tokens_per_invocation" in log) == (decoding == "greedy")
