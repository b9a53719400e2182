"""Checkpoints in the format of fairseq's WMT'19 models, with random weights and of any size.

The format is that of early 2019: options in a Namespace under ``args``, meters as objects, one
matrix for an attention's queries, keys and values, numbered layer norms in the encoder.
"""

import collections
import re
import sys
from argparse import Namespace
from types import ModuleType
from typing import Any
from unittest import mock

import torch
from fairseq.models.transformer import TransformerModel
from fairseq.tasks.translation import TranslationConfig, TranslationTask

# The sizes of the released models: 1024, 8192, 4096, 6, 16.
TINY = dict(dim=32, encoder_ffn=64, decoder_ffn=48, layers=2, heads=4)
PAIRS = {
    "de-en": dict(share_all_embeddings=True, share_decoder_input_output_embed=True),
    "ru-en": dict(share_all_embeddings=False, share_decoder_input_output_embed=True),
    "unshared": dict(share_all_embeddings=False, share_decoder_input_output_embed=False),
}


def options(pair: str, dim: int, encoder_ffn: int, decoder_ffn: int, layers: int, heads: int):
    """The Namespace of a WMT'19 model, with other sizes."""
    source, target = ("de", "en") if pair == "unshared" else pair.split("-")
    return Namespace(
        adam_betas="(0.9, 0.98)", adam_eps=1e-08, adaptive_input=False,
        adaptive_softmax_cutoff=None, adaptive_softmax_dropout=0, arch="transformer_wmt_en_de_big",
        attention_dropout=0.1, bucket_cap_mb=25, clip_norm=0.0, cpu=False,
        criterion="label_smoothed_cross_entropy",
        data=["/nowhere/old", "/nowhere/old", "/nowhere/nc"], ddp_backend="c10d",
        decoder_attention_heads=heads, decoder_embed_dim=dim, decoder_embed_path=None,
        decoder_ffn_embed_dim=decoder_ffn, decoder_input_dim=dim, decoder_layers=layers,
        decoder_learned_pos=False, decoder_normalize_before=False, decoder_output_dim=dim,
        device_id=0, distributed_backend="nccl", distributed_init_method="tcp://localhost:17406",
        distributed_port=-1, distributed_rank=0, distributed_world_size=2, dropout=0.2,
        encoder_attention_heads=heads, encoder_embed_dim=dim, encoder_embed_path=None,
        encoder_ffn_embed_dim=encoder_ffn, encoder_layers=layers, encoder_learned_pos=False,
        encoder_normalize_before=False, extra_data="", fix_batches_to_gpus=False, fp16=True,
        fp16_init_scale=128, fp16_scale_tolerance=0.0, fp16_scale_window=None,
        keep_interval_updates=-1, label_smoothing=0.1, left_pad_source="True",
        left_pad_target="False", log_format=None, log_interval=1000, lr=[0.0007],
        lr_scheduler="inverse_sqrt", lr_shrink=0.1, max_epoch=0, max_sentences=None,
        max_sentences_valid=None, max_source_positions=1024, max_target_positions=1024,
        max_tokens=3584, max_update=5000, min_loss_scale=0.0001, min_lr=1e-09, momentum=0.99,
        no_epoch_checkpoints=False, no_progress_bar=True, no_save=False,
        no_token_positional_embeddings=False, optimizer="adam", optimizer_overrides="{}",
        raw_text=False, relu_dropout=0.0, reset_lr_scheduler=False, reset_optimizer=True,
        restore_file="checkpoint_last.pt", save_dir="/nowhere/save", save_interval=1,
        save_interval_updates=200, seed=1, sentence_avg=False,
        skip_invalid_size_inputs_valid_test=False, source_lang=source, target_lang=target,
        task="translation", tensorboard_logdir="", train_subset="train", update_freq=[16],
        upsample_primary=16, user_dir=None, valid_subset="valid", validate_interval=1,
        warmup_init_lr=1e-07, warmup_updates=4000, weight_decay=0.0, **PAIRS[pair],
    )  # fmt: skip


def write_checkpoint(path, source_dictionary, target_dictionary, pair="de-en", seed=1, **sizes):
    """Write a checkpoint, and return the model that loading it must give."""
    args = options(pair, **{**TINY, **sizes})
    task = TranslationTask(TranslationConfig(), source_dictionary, target_dictionary)
    torch.manual_seed(seed)
    model = TransformerModel.build_model(_with_defaults(args), task).eval()
    with OldMeters() as meters:
        extra_state = {
            "train_iterator": {"epoch": 27, "iterations_in_epoch": 0},
            "val_loss": 3.5,
            "best": 3.4,
            "train_meters": meters,
        }
        history = {
            "criterion_name": "LabelSmoothedCrossEntropyCriterion",
            "optimizer_name": "FP16Optimizer",
            "lr_scheduler_state": {"best": None},
            "num_updates": 5000,
        }
        state = {
            "args": args,
            "model": old_parameters(model),
            "optimizer_history": [history],
            "extra_state": extra_state,
            "last_optimizer_state": None,
        }
        torch.save(state, path, _use_new_zipfile_serialization=False)
    return model


def _with_defaults(args: Namespace) -> Namespace:
    # A copy, since build_model adds options of later versions.
    args = Namespace(**vars(args))
    args.activation_fn, args.activation_dropout = "relu", args.relu_dropout
    return args


def old_parameters(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The model's parameters with the names and layout of early 2019."""
    old = collections.OrderedDict()
    parts = dict(model.state_dict())
    for name, value in parts.items():
        fused = re.fullmatch(r"(.*_attn\.)q_proj\.(weight|bias)", name)
        if fused:
            pieces = [parts[f"{fused[1]}{x}_proj.{fused[2]}"] for x in "qkv"]
            old[f"{fused[1]}in_proj_{fused[2]}"] = torch.cat(pieces)
        elif re.search(r"_attn\.[kv]_proj\.", name):
            continue
        elif name == "decoder.output_projection.weight":
            if not model.decoder.share_input_output_embed:
                old["decoder.embed_out"] = value
        else:
            name = re.sub(r"(encoder\.layers\.\d+\.)self_attn_layer_norm", r"\1layer_norms.0", name)
            name = re.sub(r"(encoder\.layers\.\d+\.)final_layer_norm", r"\1layer_norms.1", name)
            old[name] = value
    for side in ("encoder", "decoder"):
        old[f"{side}.version"] = torch.tensor([3.0])
        old[f"{side}.embed_positions._float_tensor"] = torch.zeros(1)
    return old


class OldMeters:
    """In this context, pickle finds the meters in their module of before 2019."""

    NAMES = {"train_loss": "AverageMeter", "wall": "TimeMeter", "train_wall": "StopwatchMeter"}

    def __enter__(self) -> dict[str, Any]:
        module = ModuleType("fairseq.meters")
        made = collections.OrderedDict()
        for key, name in self.NAMES.items():
            cls = type(name, (), {"__module__": "fairseq.meters"})
            setattr(module, name, cls)
            made[key] = cls()
            made[key].__dict__.update(val=1.5, avg=1.25, sum=10, count=8)
        self._patch = mock.patch.dict(sys.modules, {"fairseq.meters": module})
        self._patch.__enter__()
        return made

    def __exit__(self, *error):
        self._patch.__exit__(*error)
