"""Old checkpoints load, safely, as what they were, and ensembles of them decode."""

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_fastdec.generators.options import DECODING_CHOICES
from tests import command_line, tiny, wmt19

# Our method's options, and those with which fairseq's own generator finds the same; None where
# the method's own tests say what it finds.
METHODS = {
    "greedy": ([], ["--beam", 1]),
    "beam": (["--beam", 4, "--finalize", "fairseq"], ["--beam", 4]),
    "variable_beam": (["--beam", 4], None),
    "streaming": (["--beam", 4], None),
}
AVAILABLE = [name for name in METHODS if name in {choice.value for choice in DECODING_CHOICES}]
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


@pytest.fixture(scope="module", params=["de-en", "ru-en"])
def archive(request, corpus, tmp_path_factory):
    """Four models of different sizes and binarised data, with joined or separate dictionaries."""
    pair, directory = request.param, tmp_path_factory.mktemp("archive")
    raw = corpus.parent
    separate = [] if pair == "de-en" else ["--thresholdtgt", 2]
    joined = ["--joined-dictionary"] if pair == "de-en" else []
    command_line.preprocess(
        "-s", "en", "-t", "de", "--trainpref", raw / "train", "--testpref", raw / "test",
        "--destdir", directory, *joined, *separate,
    )  # fmt: skip
    sides = [Dictionary.load(str(directory / f"dict.{language}.txt")) for language in ("en", "de")]
    paths = [directory / f"model{number}.pt" for number in range(1, 5)]
    for number, (path, sizes) in enumerate(zip(paths, SIZES)):
        wmt19.write_checkpoint(path, *sides, pair, seed=number, **sizes)
    return directory, ":".join(str(path) for path in paths)


@pytest.mark.parametrize("method", AVAILABLE)
def test_ensembles_of_four_sizes_decode(archive, method):
    data, path = archive
    ours, theirs = METHODS[method]
    common = ["--batch-size", 8, "--max-len-b", 9]
    printed = command_line.generate(data, path, "--decoding", method, *ours, *common)
    hypotheses = command_line.hypotheses(printed)
    assert sorted(hypotheses) == list(range(29))
    if theirs is not None:
        reference = command_line.generate(data, path, *theirs, *common)
        assert hypotheses == command_line.hypotheses(reference)
        scores = command_line.scores(reference)
        assert command_line.scores(printed) == pytest.approx(scores, abs=1e-3)
