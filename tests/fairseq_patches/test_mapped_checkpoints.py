"""Checkpoints are mapped where only models are loaded; the models are the same."""

import argparse
import copy
import os
import pickle
import sys
import zipfile

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.models.transformer import TransformerModel
from fairseq.tasks.translation import TranslationTask

from fairseq_fastdec.fairseq_patches import mapped_checkpoints
from fairseq_fastdec.fairseq_patches.compat import UnreadableCheckpoint
from fairseq_fastdec.network.transformer import TransformerNetwork
from tests.support import tiny

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="files are mapped on Linux only: run it there"
)
TASK = tiny.task(20)


def state_of(model, **more):
    """What fairseq-train writes, in the manner of before 0.10."""
    args = argparse.Namespace(
        arch="transformer", task="translation", source_lang="en", target_lang="de",
        criterion="cross_entropy", optimizer="adam", lr_scheduler="fixed", lr=[0.1],
        **tiny.SIZES,
    )  # fmt: skip
    history = {"criterion_name": "CrossEntropyCriterion", "optimizer_name": "FairseqAdam"}
    return {
        "args": args,
        "model": model.state_dict(),
        "optimizer_history": [{**history, "lr_scheduler_state": {}, "num_updates": 7}],
        "last_optimizer_state": {"exp_avg": torch.ones(1000)},
        "extra_state": {"epoch": 1, "batch_offset": 0, "val_loss": 3.0},
        **more,
    }


@pytest.fixture
def write(tmp_path):
    """A function that writes a random model's checkpoint and returns its path."""

    def write_state(name="a.pt", seed=0, half=False, legacy=False, **more):
        model = tiny.stir(tiny.build_model(TASK), seed)
        state = state_of(model.half() if half else model, **more)
        torch.save(state, tmp_path / name, _use_new_zipfile_serialization=not legacy)
        return str(tmp_path / name)

    return write_state


@pytest.fixture
def forgotten(monkeypatch):
    """The stretches that have left memory from now on, in pieces of a few rows."""
    stretches = []
    forget = mapped_checkpoints.forget_pages

    def note(address, size):
        stretches.append((address, size))
        forget(address, size)

    monkeypatch.setattr(mapped_checkpoints, "forget_pages", note)
    monkeypatch.setattr(mapped_checkpoints, "PIECE", 300)
    return stretches


def load(*paths, **options):
    return checkpoint_utils.load_model_ensemble(list(paths), task=TASK, **options)[0]


def assert_as_if_read(monkeypatch, models, *paths, **options):
    """These are what fairseq loads when it reads the files."""
    with monkeypatch.context() as patch:
        patch.setattr(mapped_checkpoints, "can_be_mapped", lambda path: False)
        expected = load(*paths, **options)
    assert len(models) == len(expected)
    for model, other in zip(models, expected):
        theirs = other.state_dict()
        assert model.state_dict().keys() == theirs.keys()
        for name, value in model.state_dict().items():
            if not name.endswith("_float_tensor"):
                assert torch.equal(value, theirs[name]), name


def is_mapped(path):
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return any(line.rstrip().endswith(os.path.realpath(path)) for line in maps)


@pytest.mark.parametrize("half", [False, True], ids=["fp32", "fp16"])
def test_the_model_is_the_same(write, forgotten, monkeypatch, half):
    path = write(half=half)
    models = load(path)
    assert len(forgotten) > 100
    assert not is_mapped(path)
    assert_as_if_read(monkeypatch, models, path)


def test_ensembles(write, forgotten, monkeypatch):
    paths = [write(f"{seed}.pt", seed) for seed in (0, 1)]
    assert_as_if_read(monkeypatch, load(*paths), *paths)
    assert forgotten and not any(map(is_mapped, paths))


def test_shards(write, forgotten, monkeypatch, tmp_path):
    """--checkpoint-shard-count: fairseq loads the parts one after the other."""
    for part in (0, 1):
        write(f"a_part{part}.pt", part)
    path, options = str(tmp_path / "a.pt"), dict(strict=False, num_shards=2)
    assert_as_if_read(monkeypatch, load(path, **options), path, **options)
    assert forgotten


def deflated(path):
    """The same archive, its entries compressed: their bytes are not the tensors'."""
    packed = path + ".packed"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            new.writestr(entry.filename, old.read(entry))
    os.replace(packed, path)
    return path


def test_what_cannot_be_mapped_is_read(write, forgotten, monkeypatch):
    paths = [write("legacy.pt", legacy=True), deflated(write("deflated.pt"))]
    assert not any(map(mapped_checkpoints.can_be_mapped, paths))
    assert_as_if_read(monkeypatch, load(*paths), *paths)
    assert forgotten == []


def test_the_file_may_change_when_it_has_been_loaded(write, monkeypatch):
    path = write()
    model = load(path)[0].eval()
    net_input = tiny.random_batch(TASK, [3, 5])["net_input"]
    expected = model(**net_input)[0]
    os.truncate(path, 100)
    assert torch.equal(model(**net_input)[0], expected)


def test_what_the_task_keeps_is_no_part_of_the_file(write, monkeypatch):
    path = write(task_state={"counts": torch.arange(2000)})
    kept = {}
    monkeypatch.setattr(TranslationTask, "load_state_dict", lambda self, state: kept.update(state))
    load(path)
    assert torch.equal(kept["counts"], torch.arange(2000))
    assert not is_mapped(path)


def test_whoever_wants_more_than_models_reads(write, monkeypatch):
    """As fairseq-train does: it needs all of it."""
    path = write()
    monkeypatch.setattr(mapped_checkpoints, "can_be_mapped", pytest.fail)
    state = checkpoint_utils.load_checkpoint_to_cpu(path)
    assert state["last_optimizer_state"]["exp_avg"].sum() == 1000
    assert not is_mapped(path)


class Malicious:
    """Touches a file when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def test_mapped_files_hold_data_only(write, tmp_path):
    path = write(task_state={"x": Malicious(tmp_path / "was-here")})
    assert mapped_checkpoints.can_be_mapped(path)
    with pytest.raises(pickle.UnpicklingError, match="system"):
        load(path)
    assert not (tmp_path / "was-here").exists()
    assert torch.load is torch.serialization.load


@pytest.mark.parametrize("size", [0, 3, 100, 20_000])
def test_a_file_that_was_cut_short(write, size):
    path = write()
    assert os.path.getsize(path) > size
    os.truncate(path, size)
    with pytest.raises(UnreadableCheckpoint, match=f"^{path}: "):
        load(path)


def test_file_systems_without_mappings(write, forgotten, monkeypatch):
    path = write()

    def refuse(*_):
        raise RuntimeError("unable to mmap")

    monkeypatch.setattr(torch.UntypedStorage, "from_file", refuse)
    assert_as_if_read(monkeypatch, load(path), path)
    assert forgotten == []


@pytest.fixture
def deferring(monkeypatch):
    """The task says that models do nothing but decode."""
    monkeypatch.setattr(TASK, "defers_weights", True, raising=False)


def in_file(models):
    return [
        parameter
        for model in models
        for parameter in model.parameters()
        if hasattr(parameter, mapped_checkpoints.IN_FILE)
    ]


@pytest.mark.parametrize("half", [False, True], ids=["fp32", "fp16"])
def test_matrices_stay_in_the_file_until_they_are_read(write, deferring, monkeypatch, half):
    path = write(half=half)
    models = load(path)
    left = in_file(models)
    assert len(left) > 20 and all(parameter.dim() == 2 for parameter in left)
    assert is_mapped(path)
    kept = left[3]
    mapped_checkpoints.read_weights(models, but=[kept])
    assert in_file(models) == [kept] and is_mapped(path)
    mapped_checkpoints.read_weight(kept)
    assert not is_mapped(path)
    with monkeypatch.context() as patch:
        patch.setattr(TASK, "defers_weights", False)
        assert_as_if_read(monkeypatch, models, path)


def test_whoever_calls_a_module_has_its_weights_read(write, deferring, monkeypatch):
    path = write()
    net_input = tiny.random_batch(TASK, [3, 5])["net_input"]
    (model,) = load(path)
    own = model.eval()(**net_input)[0]
    (other,) = load(path)
    attention = other.encoder.layers[0].self_attn
    x = torch.randn(3, 2, 32)
    monkeypatch.setattr(TASK, "defers_weights", False)
    (read,) = load(path)
    assert torch.equal(own, read.eval()(**net_input)[0])
    expected = read.encoder.layers[0].self_attn(x, x, x)[0]
    assert torch.equal(attention.eval()(x, x, x)[0], expected)
    assert len(in_file([other])) > 10
    state = other.state_dict()
    for name, value in read.state_dict().items():
        if not name.endswith("_float_tensor"):
            assert torch.equal(state[name], value), name


def test_a_module_reads_once(write, deferring):
    (model,) = load(write())
    net_input = tiny.random_batch(TASK, [3, 5])["net_input"]
    for loaded in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert any(module._forward_pre_hooks for module in loaded.modules())
        loaded.eval()(**net_input)
        layers = [*loaded.encoder.layers, *loaded.decoder.layers]
        called = [own for layer in layers for own in (layer.self_attn, layer.fc1, layer.fc2)]
        assert not any(own._forward_pre_hooks for own in called)


def test_methods_in_torch_read_the_weights(write, deferring, monkeypatch):
    path, batch = write(), tiny.random_batch(TASK, [3, 5])
    (deferred,) = load(path)
    monkeypatch.setattr(TASK, "defers_weights", False)
    (read,) = load(path)
    tokens = torch.tensor([[2, 5, 7], [2, 6, 4]])
    features = []
    for model in (deferred, read):
        network = TransformerNetwork(model.eval())
        network.encode(batch["net_input"])
        features.append(network.step(tokens))
    assert torch.equal(*features)
    expected = read(**{**batch["net_input"], "prev_output_tokens": tokens}, features_only=True)
    assert torch.allclose(features[0], expected[0], atol=1e-5)


def test_in_other_dtypes_and_with_shared_weights(write, deferring, tmp_path):
    model = tiny.stir(tiny.build_model(TASK, share_all_embeddings=True))
    state = state_of(model)
    vars(state["args"])["share_all_embeddings"] = True
    path = str(tmp_path / "shared.pt")
    torch.save(state, path)
    (loaded,) = load(path)
    loaded.to(torch.bfloat16)
    mapped_checkpoints.read_weights([loaded])
    own = loaded.state_dict()
    for name, value in model.state_dict().items():
        # 0.12.2 has a second set of weights, which it makes anew when it loads.
        if name.endswith((".weight", ".bias")):
            assert torch.equal(own[name], value.to(torch.bfloat16)), name


def test_what_changes_a_weight_while_it_loads_stays(write, deferring, monkeypatch):
    """Some models do so after they have loaded their state."""
    path = write()
    plain = TransformerModel.load_state_dict

    def load_and_double(self, *args, **kwargs):
        result = plain(self, *args, **kwargs)
        with torch.no_grad():
            self.encoder.layers[0].fc1.weight.mul_(2)
            self.encoder.layers[1].fc1.weight.data.mul_(3)
        return result

    monkeypatch.setattr(TransformerModel, "load_state_dict", load_and_double)
    (model,) = load(path)
    mapped_checkpoints.read_weights([model])
    expected = torch.load(path, weights_only=False)["model"]
    for layer, factor in ((0, 2), (1, 3)):
        own = model.encoder.layers[layer].fc1.weight
        assert torch.equal(own, factor * expected[f"encoder.layers.{layer}.fc1.weight"])


def test_weights_of_which_others_are_made_do_not_stay(tmp_path, deferring):
    """fairseq makes fconv's layers of them before it builds a generator."""
    convolutions = "[(32, 3)] * 2"
    sizes = dict(encoder_layers=convolutions, decoder_layers=convolutions)
    model = tiny.stir(tiny.build_model(TASK, "fconv", **sizes))
    state = state_of(model)
    state["args"].arch = "fconv"
    vars(state["args"]).update(sizes)
    path = str(tmp_path / "fconv.pt")
    torch.save(state, path)
    (loaded,) = load(path)
    assert in_file([loaded])  # the embeddings
    for own in (model, loaded):
        own.make_generation_fast_()
    mapped_checkpoints.read_weights([loaded])
    expected = model.state_dict()
    assert {name for name, value in loaded.state_dict().items() if value.dim() == 2} > {
        "encoder.fc1.weight",
        "decoder.fc2.weight",
    }
    for name, value in loaded.state_dict().items():
        assert torch.equal(value, expected[name]), name


@pytest.mark.parametrize("arch", ["transformer", "bart_base"])
def test_nobody_draws_numbers_that_nobody_sees(arch):
    """They would be the first to need memory."""
    with mapped_checkpoints.CopyByPieces(defers=True):
        tiny.build_model(TASK, arch, seed=7, encoder_layers=1, decoder_layers=1)
    assert torch.equal(torch.get_rng_state(), torch.Generator().manual_seed(7).get_state())
