"""Tiny language models: random ones, and one that is trained with fairseq's own commands."""

import shutil

import torch
from fairseq.models.transformer_lm import TransformerLanguageModel, TransformerLanguageModelConfig
from fairseq.tasks.language_modeling import LanguageModelingTask

from tests.support import command_line, tiny
from tests.support.trained_models import TASK

SIZES = dict(
    decoder_embed_dim=24, decoder_input_dim=24, decoder_output_dim=24, decoder_ffn_embed_dim=48,
    decoder_layers=2, decoder_attention_heads=3, dropout=0.0, tokens_per_sample=64,
    max_target_positions=64, add_bos_token=False, tpu=False,
)  # fmt: skip
# The ways in which language models differ, by the name of a test.
KINDS = {
    "post-norm": dict(),
    "pre-norm": dict(decoder_normalize_before=True),
    "learned positions": dict(decoder_learned_pos=True, share_decoder_input_output_embed=True),
    "no positions": dict(no_token_positional_embeddings=True, activation_fn="gelu"),
    "projections": dict(decoder_input_dim=8, decoder_output_dim=8),
    "NormFormer": dict(
        decoder_normalize_before=True, scale_fc=True, scale_attn=True, scale_heads=True,
        scale_resids=True,
    ),
}  # fmt: skip


def random_model(seed=0, words=TASK.target_dictionary, **options):
    """A language model of fairseq that prefers some tokens clearly."""
    torch.manual_seed(seed)
    config = TransformerLanguageModelConfig(**{**SIZES, **options})
    model = TransformerLanguageModel.build_model(config, LanguageModelingTask(None, words))
    return tiny.stir(model.eval(), seed, scale=1.0)


def train(corpus, directory):
    """Train on the targets of a corpus.

    Args:
        corpus: of letters, a binarised data directory.
        directory: gets the checkpoint, and in ``bin`` the corpus with the dictionary where
            fairseq-generate reads it.
    """
    words, text = corpus / "dict.de.txt", directory / "text"
    command_line.preprocess(
        "--only-source", "--srcdict", words, "--destdir", text,
        "--trainpref", corpus.parent / "train.de", "--validpref", corpus.parent / "valid.de",
    )  # fmt: skip
    sizes = ["--decoder-embed-dim", 32, "--decoder-ffn-embed-dim", 64, "--decoder-layers", 2,
             "--decoder-attention-heads", 2, "--dropout", 0, "--tokens-per-sample", 32]  # fmt: skip
    command_line.train(
        text, directory, "--task", "language_modeling", "--arch", "transformer_lm",
        "--sample-break-mode", "eos", "--criterion", "cross_entropy", sizes=sizes, updates=60,
    )  # fmt: skip
    shutil.copytree(corpus, directory / "bin")
    shutil.copy(words, directory / "bin/dict.txt")
