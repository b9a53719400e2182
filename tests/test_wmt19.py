"""Old checkpoints load, safely, as what they were, and ensembles of them decode."""

import math
from argparse import Namespace

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_fastdec.decoding import build_generator
from fairseq_fastdec.decoding.options import DecodingOptions
from fairseq_fastdec.translating.registry import decoding_names
from tests.support import command_line, tiny, wmt19

# Our methods' options; fairseq's own generator with the same --beam is to find the same.
METHODS = {
    "greedy": dict(beam=1),
    "beam": dict(beam=4, finalize="fairseq"),
    "variable_beam": dict(beam=4, finalize="fairseq", prune_threshold=math.inf, max_candidates=8),
    "streaming": dict(beam=4, finalize="fairseq", prune_threshold=math.inf, max_candidates=8),
}
AVAILABLE = [name for name in METHODS if name in decoding_names()]
SIZES = [{}, dict(layers=1), dict(dim=48, encoder_ffn=96), dict(heads=2, decoder_ffn=80)]


def dictionaries(pair):
    source = tiny.dictionary(20)
    return source, source if pair == "de-en" else tiny.dictionary(33)


@pytest.mark.parametrize("pair", wmt19.PAIRS)
def test_they_load_as_what_they_were(tmp_path, pair):
    source, target = dictionaries(pair)
    model = wmt19.write_checkpoint(tmp_path / "model1.pt", source, target, pair)
    task = TranslationTask(TranslationConfig(), source, target)
    (loaded,), cfg = checkpoint_utils.load_model_ensemble([str(tmp_path / "model1.pt")], task=task)
    assert (cfg.model.encoder_ffn_embed_dim, cfg.model.decoder_ffn_embed_dim) == (64, 48)
    net_input = tiny.random_batch(task, [3, 5])["net_input"]
    assert torch.equal(loaded.eval()(**net_input)[0], model(**net_input)[0])


def test_their_layout(tmp_path):
    """Otherwise the test above could load a checkpoint of today."""
    source, target = dictionaries("unshared")
    model = wmt19.write_checkpoint(tmp_path / "model1.pt", source, target, "unshared")
    names = wmt19.old_parameters(model)
    for name, shape in {
        "encoder.layers.0.self_attn.in_proj_weight": (96, 32),
        "decoder.layers.1.encoder_attn.in_proj_bias": (96,),
        "encoder.layers.1.layer_norms.0.weight": (32,),
        "decoder.embed_out": (37, 32),
        "encoder.version": (1,),
        "decoder.embed_positions._float_tensor": (1,),
    }.items():
        assert names[name].shape == shape
    assert not any("q_proj" in name or "output_projection" in name for name in names)
    state = checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "model1.pt"))
    meter = state["extra_state"]["train_meters"]["train_loss"]
    assert (type(meter).__name__, meter.avg) == ("AverageMeter", 1.25)


def write_ensemble(directory, pair, source, target):
    """Four models of different sizes; their paths as --path takes them."""
    paths = [directory / f"model{number}.pt" for number in range(1, 5)]
    for number, (path, sizes) in enumerate(zip(paths, SIZES)):
        wmt19.write_checkpoint(path, source, target, pair, seed=number, **sizes)
    return ":".join(str(path) for path in paths)


@pytest.fixture(scope="module", params=["de-en", "ru-en"])
def ensemble(request, tmp_path_factory):
    source, target = dictionaries(request.param)
    task = TranslationTask(TranslationConfig(), source, target)
    path = write_ensemble(tmp_path_factory.mktemp("models"), request.param, source, target)
    return checkpoint_utils.load_model_ensemble(path.split(":"), task=task)[0], task


@pytest.mark.parametrize("method", AVAILABLE)
def test_ensembles_of_four_sizes(ensemble, method):
    models, task = ensemble
    options = dict(METHODS[method])
    beam = options.pop("beam")
    ours = build_generator(
        models,
        task.target_dictionary,
        Namespace(beam=beam, max_len_b=9),
        DecodingOptions(decoding=method, **options),
    )
    theirs = SequenceGenerator(models, task.target_dictionary, beam_size=beam, max_len_b=9)
    sample = tiny.random_batch(task, [9, 7, 7, 4, 1, 0])
    for own, expected in zip(ours.generate(models, sample), theirs.generate(models, sample)):
        assert own[0]["tokens"].tolist() == expected[0]["tokens"].tolist()
        torch.testing.assert_close(own[0]["score"], expected[0]["score"], atol=1e-4, rtol=0)


def test_on_the_command_line(corpus, tmp_path):
    """With separate dictionaries, as in Russian to English."""
    raw = corpus.parent
    command_line.preprocess(
        "-s", "en", "-t", "de", "--trainpref", raw / "train", "--testpref", raw / "test",
        "--destdir", tmp_path, "--thresholdtgt", 2,
    )  # fmt: skip
    sides = [Dictionary.load(str(tmp_path / f"dict.{language}.txt")) for language in ("en", "de")]
    path = write_ensemble(tmp_path, "ru-en", *sides)
    common = ["--batch-size", 8, "--max-len-b", 9]
    ours = command_line.generate(tmp_path, path, "--decoding", "greedy", *common)
    theirs = command_line.generate(tmp_path, path, "--beam", 1, *common)
    hypotheses = command_line.hypotheses(ours)
    assert sorted(hypotheses) == list(range(29))
    assert hypotheses == command_line.hypotheses(theirs)
    assert command_line.scores(ours) == pytest.approx(command_line.scores(theirs), abs=1e-3)
