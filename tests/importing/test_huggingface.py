"""Models of transformers give the same logits as fairseq's models of them."""

import json
import random
import re
from pathlib import Path

import pytest
import torch

from fairseq_fastdec.importing import huggingface
from fairseq_fastdec.importing.imported import UnreadableModel
from fairseq_fastdec.importing.vocabularies import Order
from tests.support import huggingface as tiny

pytest.importorskip("transformers", reason="transformers is not installed: pip install -e '.[dev]'")


def saved(directory, kind, **options):
    directory.mkdir()
    return tiny.save(directory, kind, **options)


def difference(model, directory, start=2):
    """The largest difference of logits between a model of transformers and the imported one."""
    imported = huggingface.read(directory)
    built, task = tiny.built(imported)
    vocabulary = huggingface.CLASSES[model.config.model_type].vocabulary(
        directory, huggingface.Fields.read(directory / "config.json")
    )
    source, target = Order.of(vocabulary.source), Order.of(vocabulary.target)
    batch = tiny.batch(task, (len(source.symbols), len(target.symbols)))
    ours = tiny.logits_of_fairseq(built, batch, task.target_dictionary.eos())
    theirs = tiny.logits_of_transformers(model, batch, start, source.rows, target.rows)
    known = torch.tensor(target.rows) >= 0
    assert (ours[..., ~known] < -1e8).all()
    assert theirs.std() > 0.1
    return float((ours - theirs)[..., known].abs().max())


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_logits(tmp_path, kind):
    model = saved(tmp_path / "model", kind)
    start = model.config.decoder_start_token_id if kind in ("marian", "separate_marian") else 2
    assert difference(model, tmp_path / "model", start) < 1e-4


@pytest.mark.parametrize("kind", ["marian", "mbart_50", "bart"])
def test_biases_of_logits(tmp_path, kind):
    model = saved(tmp_path / "model", kind, bias=True)
    imported = huggingface.read(tmp_path / "model")
    assert (imported.arch, imported.options["output_bias"]) == ("marian_transformer", True)
    assert difference(model, tmp_path / "model", model.config.decoder_start_token_id or 2) < 1e-4


@pytest.mark.parametrize("kind", ["marian", "nllb", "bart"])
def test_other_values_of_configs(tmp_path, kind):
    changes = {
        "activation_function": "gelu_new" if kind == "marian" else "silu",
        "scale_embedding": kind == "bart",
        "encoder_layers": 1,
        "decoder_layers": 3,
    }
    model = saved(tmp_path / "model", kind, **changes)
    assert difference(model, tmp_path / "model", model.config.decoder_start_token_id) < 1e-4


@pytest.mark.parametrize("kind", ["marian", "separate_marian", "mbart", "m2m_100"])
def test_an_output_layer_of_its_own(tmp_path, kind):
    model = saved(tmp_path / "model", kind, tie_word_embeddings=False)
    imported = huggingface.read(tmp_path / "model")
    assert not imported.options["share_decoder_input_output_embed"]
    assert difference(model, tmp_path / "model", model.config.decoder_start_token_id or 2) < 1e-4


def test_shared_embeddings_are_one_tensor(tmp_path):
    saved(tmp_path / "model", "nllb")
    imported = huggingface.read(tmp_path / "model")
    assert imported.options["share_all_embeddings"]
    assert "decoder.output_projection.weight" not in imported.state
    source, target = (imported.state[f"{side}.embed_tokens.weight"] for side in huggingface.SIDES)
    assert source is target


def test_separate_vocabularies_of_marian(tmp_path):
    saved(tmp_path / "model", "separate_marian")
    imported = huggingface.read(tmp_path / "model")
    assert not imported.options["share_all_embeddings"]
    assert imported.options["share_decoder_input_output_embed"]
    assert imported.source != imported.target


def as_pickles(directory, zipped=True):
    """Write the parameters as before safetensors: with all shared ones."""
    from safetensors.torch import load_file

    state = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    state["model.encoder.embed_tokens.weight"] = state["model.shared.weight"]
    state["lm_head.weight"] = state["model.shared.weight"]
    path = directory / "pytorch_model.bin"
    torch.save(state, path, _use_new_zipfile_serialization=zipped)


@pytest.mark.parametrize("zipped", [True, False])
def test_pickles(tmp_path, zipped):
    model = saved(tmp_path / "model", "marian")
    as_pickles(tmp_path / "model", zipped)
    start = model.config.decoder_start_token_id
    assert difference(model, tmp_path / "model", start) < 1e-4


def test_shards(tmp_path):
    model = saved(tmp_path / "model", "m2m_100", files={"max_shard_size": "40KB"})
    assert len(list((tmp_path / "model").glob("model-*.safetensors"))) > 2
    assert difference(model, tmp_path / "model") < 1e-4


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(tmp_path, dtype):
    directory = tmp_path / "model"
    saved(directory, "marian").to(dtype).save_pretrained(directory)
    assert {own.dtype for own in huggingface.read(directory).state.values()} == {torch.float32}
    (model_class,) = tiny.transformers("MarianMTModel")
    model = model_class.from_pretrained(directory, dtype=torch.float32).eval()
    assert difference(model, directory, model.config.decoder_start_token_id) < 1e-4


def test_parameters_without_a_prefix_and_tables_of_sinusoids(tmp_path):
    from safetensors.torch import load_file, save_file

    model = saved(tmp_path / "model", "marian")
    path = tmp_path / "model" / "model.safetensors"
    state = {name.removeprefix("model."): own for name, own in load_file(path).items()}
    name = "encoder.embed_positions.weight"
    state[name] = model.model.encoder.embed_positions.weight.clone()
    state["decoder.version"] = torch.tensor([3.0])
    save_file(state, path)
    start = model.config.decoder_start_token_id
    assert difference(model, tmp_path / "model", start) < 1e-4
    save_file({**state, name: state[name] + 0.1}, path)
    with pytest.raises(UnreadableModel, match="other positions than sinusoids"):
        huggingface.read(tmp_path / "model")


def test_parameters_without_a_use(tmp_path):
    from safetensors.torch import load_file, save_file

    saved(tmp_path / "model", "bart")
    path = tmp_path / "model" / "model.safetensors"
    save_file({**load_file(path), "classification_head.dense.weight": torch.ones(2)}, path)
    with pytest.raises(UnreadableModel, match="classification_head.dense.weight has no use"):
        huggingface.read(tmp_path / "model")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"model_type": "nllb-moe"}, "model_type is 'nllb-moe'"),
        ({"model_type": 5}, "must be a text"),
        ({"activation_function": "quick_gelu"}, "activation_function is 'quick_gelu'"),
        ({"is_encoder_decoder": False}, "is_encoder_decoder is False"),
        ({"is_decoder": True}, "is_decoder is True"),
        ({"normalize_before": True}, "normalize_before is True"),
        ({"quantization_config": {}}, "quantised parameters"),
        ({"d_model": 31}, "d_model is 31; it must be even"),
        ({"encoder_attention_heads": 5}, "must divide d_model"),
        ({"decoder_layers": 3}, "decoder.layers.2.*is missing"),
        ({"decoder_layers": 1}, "decoder.layers.1.*has no use"),
        ({"eos_token_id": 1}, "eos_token_id is 1"),
        ({"pad_token_id": [1, 2]}, "number of one type"),
        ({"vocab_size": 300, "decoder_vocab_size": 300}, r"of shape \(\d+, 32\) for 300 types"),
        ({"vocab_size": 300}, "the vocabularies have 300 and 198 types"),
        ({"vocab_size": 10**9}, "vocab_size is 1000000000"),
        ({"vocab_size": 100, "decoder_vocab_size": 100}, "the model has 100 types"),
        ({"decoder_start_token_id": 5000}, "decoder_start_token_id is 5000"),
        ({"tokenizer_class": "BarthezTokenizer"}, "tokenizer_class is 'BarthezTokenizer'"),
    ],
)
def test_configs_that_are_refused(tmp_path, change, message):
    saved(tmp_path / "model", "marian")
    tiny.changed(tmp_path / "model" / "config.json", **change)
    (tmp_path / "model" / "generation_config.json").unlink()
    with pytest.raises(UnreadableModel, match=message) as error:
        huggingface.read(tmp_path / "model")
    assert str(tmp_path) in str(error.value) and "\n" not in str(error.value)


def mutated(content, generator):
    """A damaged file: cut, with a changed byte, or with values that tend to be forgotten."""
    content = bytearray(content)
    way = generator.randrange(4)
    place = generator.randrange(len(content))
    if way == 0:
        del content[place:]
    elif way == 1:
        content[place] = generator.randrange(256)
    elif way == 2:
        content[place:place] = generator.randbytes(5)
    else:
        odd = [b"null", b"-1", b"1e400", b"[]", b"{}", b'""', b"99999999999999999999", b"true"]
        end = content.find(b",", place)
        colon = content.rfind(b":", 0, max(end, 1))
        if 0 <= colon < end:
            content[colon + 1 : end] = generator.choice(odd)
    return bytes(content)


@pytest.mark.parametrize(
    "kind, name",
    [
        ("marian", "config.json"),
        ("marian", "vocab.json"),
        ("marian", "generation_config.json"),
        ("mbart", "tokenizer_config.json"),
        ("bart", "merges.txt"),
        ("marian", "model.safetensors"),
    ],
)
def test_damaged_files(tmp_path, kind, name):
    """They raise an error of one line that names the file, or change nothing that is checked."""
    saved(tmp_path / "model", kind)
    path, generator, refused = tmp_path / "model" / name, random.Random(1), 0
    content = path.read_bytes()
    # Damage of the parameters themselves is not noticed.
    head = 8 + int.from_bytes(content[:8], "little") if name.endswith("tensors") else len(content)
    for _ in range(60):
        path.write_bytes(mutated(content[:head], generator) + content[head:])
        try:
            imported = huggingface.read(tmp_path / "model")
            tiny.built(imported)
        except (UnreadableModel, OSError) as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused > 10


def test_the_files_of_a_directory_that_are_missing(tmp_path):
    saved(tmp_path / "model", "marian")
    for name in ("model.safetensors", "source.spm", "vocab.json", "config.json"):
        (tmp_path / "model" / name).unlink()
        with pytest.raises(OSError, match=name.replace(".", r"\.")):
            huggingface.read(tmp_path / "model")


def test_no_code_of_transformers_is_used():
    for path in Path(huggingface.__file__).parent.glob("*.py"):
        assert not re.search(
            r"(?m)^\s*(from|import) transformers", path.read_text(encoding="utf-8")
        )


def test_configs_are_json_of_one_object(tmp_path):
    for content in ("[]", "3", "{", json.dumps({"model_type": ["bart"]}), "[" * 10**5):
        (tmp_path / "config.json").write_text(content)
        with pytest.raises(UnreadableModel, match=r"config\.json"):
            huggingface.read(tmp_path)
