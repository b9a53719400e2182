"""--finetune-from-model of another network: one line that names the options to give."""

import argparse
import re
from pathlib import Path

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_INV_REGISTRY

from fairseq_fastdec.models.finetuning import check_finetuned
from tests.support import command_line, tiny
from tests.support.command_line import train

TASK = tiny.task(20)
PATH = "pretrained.pt"


def options(arch, **overrides):
    return argparse.Namespace(arch=arch, **{**tiny.SIZES, **overrides})


def check(
    trained=None, own=None, trained_arch="transformer", arch="blockwise_transformer", task=TASK
):
    trained, own = trained or {}, own or {}
    old = tiny.build_model(TASK, trained_arch, **trained)
    new = tiny.build_model(task, arch, **own)
    state = {"cfg": {"model": options(trained_arch, **trained)}, "model": old.state_dict()}
    check_finetuned(PATH, state, options(arch, **own), new)


def test_networks_that_agree():
    check()
    check(dict(share_all_embeddings=True), dict(share_all_embeddings=True))
    # What was shared can begin as two.
    check(dict(share_all_embeddings=True))
    check(dict(share_all_embeddings=True), dict(share_decoder_input_output_embed=True))
    # Options that are no part of the network.
    check(dict(dropout=0.3), dict(dropout=0.1, block_size=3))
    heads = dict(block_size=3, identity_first_head=True)
    check(heads, heads, trained_arch="blockwise_transformer")


@pytest.mark.parametrize(
    "trained, own, remedy",
    [
        (dict(decoder_layers=3), {}, "give --decoder-layers 3"),
        (
            dict(encoder_embed_dim=64, decoder_embed_dim=64, encoder_ffn_embed_dim=96),
            {},
            "give --encoder-embed-dim 64 --encoder-ffn-embed-dim 96 --decoder-embed-dim 64",
        ),
        (dict(decoder_output_dim=16), {}, "give --decoder-output-dim 16"),
        ({}, dict(decoder_input_dim=16), "remove --decoder-input-dim"),
        # These torch would take without a word.
        (dict(decoder_attention_heads=2), {}, "give --decoder-attention-heads 2"),
        (dict(activation_fn="gelu"), {}, "give --activation-fn gelu"),
        (dict(decoder_normalize_before=True), {}, "give --decoder-normalize-before"),
        ({}, dict(encoder_normalize_before=True), "remove --encoder-normalize-before"),
        (dict(no_scale_embedding=True), {}, "give --no-scale-embedding"),
        ({}, dict(share_all_embeddings=True),
         "remove --share-decoder-input-output-embed --share-all-embeddings"),
        (dict(encoder_learned_pos=True), {}, "give --encoder-learned-pos"),
        (
            dict(decoder_learned_pos=True, max_target_positions=32),
            dict(decoder_learned_pos=True),
            "give --max-target-positions 32",
        ),
        (
            dict(layernorm_embedding=True, decoder_layers=1),
            dict(decoder_normalize_before=True),
            "give --decoder-layers 1 --layernorm-embedding and remove --decoder-normalize-before",
        ),
    ],
)  # fmt: skip
def test_the_options_that_differ(trained, own, remedy):
    message = f"--finetune-from-model {PATH}: was trained with other options than this model; "
    with pytest.raises(ValueError, match=f"^{re.escape(message + remedy)}$"):
        check(trained, own)


def test_heads_that_differ():
    with pytest.raises(ValueError, match="give --block-size 3 --block-ffn split --identity-first"):
        check(
            dict(block_size=3, block_ffn="split", identity_first_head=True),
            trained_arch="blockwise_transformer",
        )
    sequential = dict(block_heads="sequential", identity_first_head=True)
    with pytest.raises(ValueError, match="give --block-heads sequential$"):
        check(sequential, dict(identity_first_head=True), trained_arch="blockwise_transformer")
    with pytest.raises(ValueError, match="give --block-output-rank 8$"):
        check(
            {**sequential, "block_output_rank": 8}, sequential, trained_arch="blockwise_transformer"
        )
    with pytest.raises(ValueError, match="give --block-heads parallel$"):
        check(dict(identity_first_head=True), sequential, trained_arch="blockwise_transformer")
    with pytest.raises(ValueError, match="has prediction heads .*--arch transformer has none"):
        check(trained_arch="blockwise_transformer", arch="transformer")


def test_other_kinds_of_models():
    with pytest.raises(ValueError, match="was trained with --arch lstm, and --arch blockwise_tr"):
        check(dict(criterion="cross_entropy"), trained_arch="lstm")


def test_old_checkpoints_lack_newer_options():
    model = tiny.build_model(TASK)
    trained = options("transformer")
    for name in ("decoder_embed_dim", "decoder_ffn_embed_dim"):
        delattr(trained, name)
    state = {"cfg": {"model": trained}, "model": model.state_dict()}
    check_finetuned(PATH, state, options("transformer"), model)


def test_other_vocabularies():
    model = tiny.build_model(TASK)
    larger = tiny.build_model(tiny.task(20, 30), "blockwise_transformer")
    state = {"cfg": {"model": options("transformer")}, "model": model.state_dict()}
    with pytest.raises(ValueError, match="with 24 target types, and the target dictionary has 34"):
        check_finetuned(PATH, state, options("blockwise_transformer"), larger)


def test_double_tokens_begin_with_a_stock_model():
    """Its <eod> is one type more, and its learned positions begin as sinusoids."""
    old = tiny.build_model(TASK, share_all_embeddings=True)
    new = tiny.build_model(
        tiny.double_token_task(), "double_token_transformer", share_all_embeddings=True
    )
    own = options("double_token_transformer", decoder_learned_pos=True, share_all_embeddings=True)
    trained = options("transformer", share_all_embeddings=True)
    state = {"cfg": {"model": trained}, "model": old.state_dict()}
    check_finetuned(PATH, state, own, new)
    own.encoder_layers = 5
    with pytest.raises(ValueError, match="give --encoder-layers 2$"):
        check_finetuned(PATH, state, own, new)


def test_one_line_and_no_list_of_parameters(corpus, baseline, tmp_path, caplog):
    sizes = [{"64": "48"}.get(option, option) for option in command_line.TINY]
    with pytest.raises(ValueError) as refusal:
        train(
            corpus, tmp_path, "--task", "translation", "--arch", "blockwise_transformer",
            "--criterion", "random_sub_loss", "--finetune-from-model", baseline, updates=1,
            sizes=sizes,
        )  # fmt: skip
    assert str(refusal.value) == (
        f"--finetune-from-model {baseline}: was trained with other options than this model; give "
        "--encoder-ffn-embed-dim 64 --decoder-ffn-embed-dim 64"
    )
    assert "size mismatch" not in caplog.text


def train_heads(corpus, new, old, *options, sizes=()):
    train(
        corpus, new, "--task", "translation", "--arch", "blockwise_transformer",
        "--criterion", "random_sub_loss", "--finetune-from-model", old / "checkpoint_last.pt",
        *options, updates=1, sizes=sizes,
    )  # fmt: skip
    return torch.load(new / "checkpoint_last.pt", weights_only=True)


def test_the_options_that_are_named_are_enough(corpus, tmp_path):
    """From the message to a training that begins."""
    old, new = tmp_path / "old", tmp_path / "new"
    train(
        corpus, old, "--task", "translation", "--arch", "transformer",
        "--encoder-normalize-before", "--decoder-learned-pos", updates=1,
    )  # fmt: skip
    with pytest.raises(ValueError) as refusal:
        train_heads(
            corpus, new, old, sizes=("--decoder-normalize-before", "--decoder-ffn-embed-dim", 48)
        )
    message = "give (--decoder-ffn-embed-dim 64) and remove --decoder-normalize-before$"
    given = re.search(message, str(refusal.value)).group(1)
    state = train_heads(corpus, new, old, sizes=given.split())
    assert state["cfg"]["model"].encoder_normalize_before


@pytest.fixture
def two_dictionaries(corpus, tmp_path):
    """The corpus with a dictionary for each side, the target's with one word more."""
    place = tmp_path / "two"
    for name in ("en", "de"):
        words = (corpus / f"dict.{name}.txt").read_text()
        (tmp_path / f"dict.{name}.txt").write_text(words + "zz 1\n" * (name == "de"))
        (tmp_path / f"train.{name}").write_text("a b c\nd e\n" * 20)
    command_line.preprocess(
        "-s", "en", "-t", "de", "--destdir", place, "--srcdict", tmp_path / "dict.en.txt",
        "--tgtdict", tmp_path / "dict.de.txt", "--trainpref", tmp_path / "train",
        "--validpref", tmp_path / "train",
    )  # fmt: skip
    return place


def test_the_shape_is_the_checkpoints(two_dictionaries, tmp_path, caplog):
    """Options are left out: separate dictionaries, sizes, attention heads, norms, activation."""
    old, new, newer = tmp_path / "old", tmp_path / "new", tmp_path / "newer"
    sizes = [option for option in command_line.TINY if option != "--share-all-embeddings"]
    train(
        two_dictionaries, old, "--task", "translation", "--arch", "transformer", *sizes,
        "--encoder-normalize-before", "--activation-fn", "gelu",
        "--share-decoder-input-output-embed", updates=1, sizes=(),
    )  # fmt: skip
    with caplog.at_level("INFO"):
        heads = ("--block-size", 3, "--block-ffn", "split", "--identity-first-head")
        trained = train_heads(two_dictionaries, new, old, *heads)["cfg"]["model"]
    assert trained.encoder_normalize_before and not trained.decoder_normalize_before
    assert trained.activation_fn == "gelu"
    assert trained.encoder_embed_dim == 32 and trained.decoder_attention_heads == 2
    assert trained.share_decoder_input_output_embed and not trained.share_all_embeddings
    assert "instead of that of --arch: --encoder-embed-dim 32 --encoder-ffn-em" in caplog.text
    # Heads have a shape, too.
    again = train_heads(two_dictionaries, newer, new)["cfg"]["model"]
    assert (again.block_size, again.block_ffn, again.identity_first_head) == (3, "split", True)


def test_models_that_are_built_again_need_no_checkpoint(tmp_path):
    """What a training remembers of --finetune-from-model may be another file by now."""
    args = tiny.arguments("blockwise_transformer", finetune_from_model=str(tmp_path / "other.pt"))
    (tmp_path / "other.pt").write_text("no checkpoint")
    ARCH_CONFIG_REGISTRY["blockwise_transformer"](args)


def test_the_documents_list_all_architectures_and_their_sizes():
    page = Path(__file__).parents[2] / "docs" / "training.md"
    rows = re.findall(
        r"(?m)^\| `(blockwise\w*)`, `(double\w*)` \| `(\w+)` "
        r"\| (\d+), (\d+) \| (\d+) \| (\d) \+ (\d) \|$",
        page.read_text(encoding="utf-8"),
    )
    own = {
        arch
        for model in ("blockwise_transformer", "double_token_transformer")
        for arch in ARCH_MODEL_INV_REGISTRY[model]
    }
    assert {arch for row in rows for arch in row[:2]} == own
    for *archs, dim, inner, n_heads, n_encoders, n_decoders in rows:
        for arch in archs:
            args = argparse.Namespace()
            ARCH_CONFIG_REGISTRY[arch](args)
            for side, n_layers in (("encoder", n_encoders), ("decoder", n_decoders)):
                sizes = [
                    getattr(args, f"{side}_{name}")
                    for name in ("embed_dim", "ffn_embed_dim", "attention_heads", "layers")
                ]
                assert sizes == [int(dim), int(inner), int(n_heads), int(n_layers)]
