"""The decoding options of transformers as fairseq's."""

import logging

import pytest
import torch

from fairseq_fastdec.importing import huggingface
from fairseq_fastdec.importing.fields import Fields
from fairseq_fastdec.importing.huggingface_generation import Generation
from fairseq_fastdec.importing.imported import UnreadableModel
from tests.support import huggingface as tiny


def generation(directory, **values):
    tiny.write_json(directory / "generation_config.json", values)
    return Generation.read(directory, Fields(directory / "config.json", {}), None)


@pytest.mark.parametrize(
    "values, options",
    [
        ({}, {"beam": 1, "lenpen": 1.0, "min_len": 0}),
        ({"num_beams": 4}, {"beam": 4, "finalize": "hf"}),
        ({"num_beams": 4, "early_stopping": False}, {"finalize": "hf"}),
        ({"num_beams": 4, "early_stopping": True}, {"beam": 4, "finalize": "hf_early"}),
        ({"length_penalty": 2}, {"lenpen": 2}),
        ({"max_length": 200}, {"max_len_a": 0, "max_len_b": 199}),
        ({"max_length": 200, "forced_eos_token_id": 2}, {"max_len_b": 198}),
        ({"max_length": 200, "max_new_tokens": 10}, {"max_len_b": 10}),
        ({"min_length": 56}, {"min_len": 55}),
        ({"no_repeat_ngram_size": 3}, {"no_repeat_ngram_size": 3}),
        ({"no_repeat_ngram_size": 0}, {"no_repeat_ngram_size": None}),
        ({"bad_words_ids": [[1]], "renormalize_logits": True}, {}),
        ({"temperature": 0.7, "top_k": 5, "do_sample": False}, {}),
    ],
)
def test_options(tmp_path, values, options, caplog):
    found = generation(tmp_path, **values).defaults(pad=1)
    assert {name: found.get(name) for name in options} == options
    assert not caplog.records


@pytest.mark.parametrize(
    "values, names",
    [
        ({"do_sample": True}, ["do_sample"]),
        ({"suppress_tokens": [3], "repetition_penalty": 1.3}, ["suppress_tokens = [3]", "1.3"]),
        ({"bad_words_ids": [[5]]}, ["bad_words_ids"]),
        ({"bad_words_ids": [[1], [5, 6]]}, ["bad_words_ids"]),
        ({"renormalize_logits": True, "no_repeat_ngram_size": 3}, ["renormalize_logits"]),
        ({"early_stopping": "never", "num_beams": 3}, ["early_stopping = 'never'"]),
        ({"num_beams": 4, "num_beam_groups": 2}, ["num_beam_groups"]),
    ],
)
def test_a_warning_names_what_is_not_supported(tmp_path, values, names, caplog):
    with caplog.at_level(logging.WARNING):
        generation(tmp_path, **values).defaults(pad=1)
    (record,) = caplog.records
    assert all(name in record.getMessage() for name in names)
    assert str(tmp_path) in record.getMessage() and "\n" not in record.getMessage()


@pytest.mark.parametrize(
    "name, value",
    [
        ("num_beams", 0),
        ("num_beams", "4"),
        ("length_penalty", None),
        ("length_penalty", float("inf")),
        ("max_length", -1),
        ("min_length", 1.5),
        ("no_repeat_ngram_size", True),
    ],
)
def test_values_of_other_kinds(tmp_path, name, value):
    read = generation(tmp_path, **{name: value})
    if value is None:
        assert read.defaults(pad=1)["lenpen"] == 1.0
    else:
        with pytest.raises(UnreadableModel, match=f"{name} is"):
            read.defaults(pad=1)


def test_older_directories_have_the_options_in_the_config(tmp_path):
    config = Fields(tmp_path / "config.json", {"num_beams": 6, "max_length": 512})
    read = Generation.read(tmp_path, config, forced_eos=0)
    assert read.defaults(pad=1)["beam"] == 6
    assert read.defaults(pad=1)["max_len_b"] == 510
    tiny.write_json(tmp_path / "generation_config.json", {"num_beams": 2})
    assert Generation.read(tmp_path, config, forced_eos=0).defaults(pad=1)["beam"] == 2


@pytest.mark.parametrize("forced_eos", [None, 2])
@pytest.mark.parametrize("most", [2, 5, 9])
def test_outputs_have_the_maximum_length_of_transformers(tmp_path, most, forced_eos):
    """fairseq ends outputs of ``max_len_b`` tokens with EOS."""
    model = tiny.save(tmp_path, "bart", forced_bos_token_id=None)
    model.lm_head.weight.data[2].zero_()  # EOS is not chosen
    options = {"max_length": most, "forced_eos_token_id": forced_eos}
    output = model.generate(torch.tensor([[0, 5, 6, 2]]), num_beams=1, **options)[0].tolist()
    chosen = [number for number in output[1:] if number != 2]
    found = generation(tmp_path, **options).defaults(pad=1)
    assert len(chosen) == found["max_len_b"] or most == 2


@pytest.mark.parametrize("least", [0, 1, 4])
def test_outputs_have_the_minimum_length_of_transformers(tmp_path, least):
    """fairseq forbids EOS in the first ``min_len`` steps."""
    model = tiny.save(tmp_path, "bart", bias=True, forced_bos_token_id=None)
    model.final_logits_bias[0, 2] = 1000  # EOS is always chosen
    output = model.generate(torch.tensor([[0, 5, 2]]), num_beams=1, min_length=least, max_length=20)
    n_steps = output[0].tolist()[1:].index(2)
    assert n_steps == generation(tmp_path, min_length=least).defaults(pad=1)["min_len"]


def test_probabilities_without_padding(tmp_path):
    """Opus-MT bans padding, whose embedding is zero, and normalises probabilities without it."""
    directory = tmp_path / "model"
    directory.mkdir()
    model = tiny.save(directory, "marian")
    pad = model.config.pad_token_id
    path = directory / "generation_config.json"
    tiny.changed(path, bad_words_ids=[[pad]], renormalize_logits=True)
    assert huggingface.read(directory).state["decoder.output_projection.bias"][1] == -1e9
    tiny.changed(path, renormalize_logits=False)
    assert huggingface.read(directory).state["decoder.output_projection.bias"][1] == 0
