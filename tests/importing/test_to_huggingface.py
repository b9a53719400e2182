"""Models of fairseq compute the same in transformers, and are the same when they are read again."""

import json
import logging
from argparse import Namespace

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY

from fairseq_fastdec.importing import huggingface
from fairseq_fastdec.importing.to_huggingface import NAMES, Dictionaries, export
from fairseq_fastdec.translating.languages import Languages, Pair
from tests.support import huggingface as tiny
from tests.support import skips

skips.needs("transformers")
skips.needs("safetensors.torch")

PRE = {"encoder_normalize_before": True, "decoder_normalize_before": True}
LEARNED = {"encoder_learned_pos": True, "decoder_learned_pos": True}
NORM = {"layernorm_embedding": True}
SHARED = {"share_all_embeddings": True}
MARIAN = {"arch": "marian_transformer", "norm_epsilon": 1e-5, "share_all_embeddings": False}
STOCK = {**MARIAN, "sinusoids": "fairseq", "first_input": "eos", "activation_fn": "relu"}


def dictionary(n_types, symbols=()):
    made = Dictionary()
    for symbol in symbols or (f"x{number}" for number in range(n_types - len(made))):
        made.add_symbol(symbol)
    return made


def model_of(dictionaries, **options):
    """A random model of fairseq, its options and its task."""
    args = Namespace(arch="transformer", max_source_positions=50, max_target_positions=50)
    vars(args).update({"encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 4})
    for side in ("encoder", "decoder"):
        vars(args).update({f"{side}_embed_dim": 16, f"{side}_ffn_embed_dim": 24})
    vars(args).update({"decoder_attention_heads": 2, **options})
    ARCH_CONFIG_REGISTRY[args.arch](args)
    task = Namespace(source_dictionary=dictionaries.source, target_dictionary=dictionaries.target)
    torch.manual_seed(1)
    model = ARCH_MODEL_REGISTRY[args.arch].build_model(args, task)
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model.eval(), args, task


def dictionaries_of(are_joined):
    source = dictionary(40)
    return Dictionaries(source, source if are_joined else dictionary(33))


CASES = {
    "stock": ("fsmt", {}, False),
    "stock, joined": ("fsmt", SHARED, True),
    "stock, tied": ("fsmt", {"share_decoder_input_output_embed": True}, False),
    "stock, gelu, unscaled": ("fsmt", {"activation_fn": "gelu", "no_scale_embedding": True}, True),
    "pre-norm": ("m2m_100", {**PRE, **SHARED}, True),
    "pre-norm, stock Marian": ("m2m_100", {**STOCK, **PRE, **SHARED, "output_bias": False}, True),
    "pre-norm, tanh": ("m2m_100", {**PRE, **SHARED, "activation_fn": "tanh"}, True),
    "mBART": ("mbart", {**PRE, **SHARED, **LEARNED, **NORM, "activation_fn": "gelu"}, True),
    "mBART with sinusoids": ("mbart", {**PRE, **SHARED, **NORM}, True),
    "mBART with biases": ("mbart", {**STOCK, **PRE, **SHARED, **LEARNED, **NORM}, True),
    "BART": ("bart", {**SHARED, **LEARNED, **NORM, "activation_fn": "gelu_accurate"}, True),
    "BART with sinusoids": ("bart", {**SHARED, **NORM}, True),
    "BART of padding": ("bart", {**STOCK, **SHARED, **NORM, "first_input": "pad"}, True),
    "Marian": ("marian", {**MARIAN, **SHARED, "sinusoids": "transformers"}, True),
    "Marian, separate": ("marian", {**MARIAN, "sinusoids": "transformers"}, False),
    "Marian, tied": (
        "marian",
        {**MARIAN, "sinusoids": "transformers", "share_decoder_input_output_embed": True},
        False,
    ),
    "Marian of EOS": (
        "marian",
        {**MARIAN, **SHARED, "sinusoids": "transformers", "first_input": "eos"},
        True,
    ),
}


def opened(directory, kind):
    (model_class,) = tiny.transformers(NAMES[kind])
    model, told = model_class.from_pretrained(directory, output_loading_info=True)
    sinusoids = {name for name in told["missing_keys"] if "embed_positions" in name}
    assert set(told["missing_keys"]) == sinusoids and not told["unexpected_keys"]
    assert not sinusoids or kind == "marian"
    return model.eval()


@pytest.mark.parametrize("case", CASES)
def test_logits_and_parameters(tmp_path, case):
    kind, options, are_joined = CASES[case]
    dictionaries = dictionaries_of(are_joined)
    model, args, task = model_of(dictionaries, **options)
    spm = tiny.train_sentencepiece(tmp_path / "m").read_bytes()
    files = {"sentencepiece.bpe.model": spm}
    written = export(
        args, model.state_dict(), dictionaries, files, tmp_path / "out", pair=Pair("en", "de")
    )
    assert sorted(written) == sorted(path.name for path in (tmp_path / "out").iterdir())
    theirs = opened(tmp_path / "out", kind)
    rows = [list(range(len(own))) for own in dictionaries]
    batch = tiny.batch(task, [len(own) for own in dictionaries])
    start = theirs.generation_config.decoder_start_token_id
    ours = tiny.logits_of_fairseq(model, batch, dictionaries.target.eos())
    found = tiny.logits_of_transformers(theirs, batch, start, *rows)
    assert found.std() > 0.1
    torch.testing.assert_close(ours, found, atol=1e-5, rtol=1e-5)

    imported = huggingface.read(tmp_path / "out")
    assert (imported.source, imported.target) == tuple(own.symbols for own in dictionaries)
    assert (imported.source_lang, imported.target_lang) == ("en", "de")
    assert imported.files == files
    state = model.state_dict()
    for name, value in imported.state.items():
        if "embed_positions" not in name or args.encoder_learned_pos:
            assert torch.equal(value, state[name]), name
    again, _ = tiny.built(imported)
    torch.testing.assert_close(tiny.logits_of_fairseq(again, batch, 2), ours, atol=1e-5, rtol=1e-5)


REFUSED = {
    "--norm-epsilon 1e-06": {**MARIAN, "norm_epsilon": 1e-6},
    "--decoder-autoreg ssru": {**MARIAN, "decoder_autoreg": "ssru", "activation_fn": "relu"},
    "--sinusoids marian": {**MARIAN, "sinusoids": "marian"},
    "--no-final-norms": {**STOCK, **PRE, "no_final_norms": True},
    "--encoder-normalize-before and no --decoder": {"encoder_normalize_before": True},
    "--encoder-embed-dim 16 and --decoder-embed-dim 32": {"decoder_embed_dim": 32},
    "--encoder-learned-pos": LEARNED,
    "--encoder-learned-pos: no class": {**PRE, **LEARNED},
    "--output-bias": {**STOCK, **PRE},
    "--first-input pad": {**STOCK, **PRE, "output_bias": False, "first_input": "pad"},
    "--no-cross-attention": {"no_cross_attention": True},
    "--no-token-positional-embeddings": {"no_token_positional_embeddings": True},
    "--activation-fn relu_squared": {"activation_fn": "relu_squared"},
    "--max-source-positions 60 and --max-target-positions 50": {
        **LEARNED, **NORM, **SHARED, "max_source_positions": 60,
    },
    "decoder.embed_tokens.weight: differs": PRE,
    "--arch lstm": {"arch": "lstm"},
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_models_of_no_class(tmp_path, message):
    dictionaries = dictionaries_of(True)
    options = REFUSED[message]
    built = {name: value for name, value in options.items() if value != "lstm"}
    if "relu_squared" in built.values() or "no_cross_attention" in built:
        built = {}
    model, args, _ = model_of(dictionaries, **built)
    vars(args).update(options)
    with pytest.raises(ValueError, match=message) as error:
        export(args, model.state_dict(), dictionaries, {}, tmp_path / "out")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_dictionaries_that_differ(tmp_path):
    dictionaries = dictionaries_of(False)
    model, args, _ = model_of(dictionaries, **PRE)
    with pytest.raises(ValueError, match="dictionaries that differ: no class.*M2M100"):
        export(args, model.state_dict(), dictionaries, {}, tmp_path)


def test_parameters_without_a_use(tmp_path):
    dictionaries = dictionaries_of(True)
    model, args, _ = model_of(dictionaries)
    state = {**model.state_dict(), "decoder.heads.weight": torch.ones(1)}
    with pytest.raises(ValueError, match=r"decoder\.heads\.weight: no class"):
        export(args, state, dictionaries, {}, tmp_path)
    del state["decoder.heads.weight"], state["encoder.layers.0.fc1.bias"]
    with pytest.raises(ValueError, match=r"encoder\.layers\.0\.fc1\.bias: .*missing"):
        export(args, state, dictionaries, {}, tmp_path)


def generation_of(directory, defaults=None, languages=None, pair=None, **options):
    tokens = ["__en__", "__de__"]
    joined = dictionary(0, ["a", "b", *tokens])
    dictionaries = Dictionaries(joined, joined)
    model, args, _ = model_of(dictionaries, **options)
    given = {"languages": languages, "pair": pair, "defaults": defaults}
    export(args, model.state_dict(), dictionaries, {}, directory, **given)
    return json.loads((directory / "generation_config.json").read_text())


def test_decoding(tmp_path):
    found = generation_of(tmp_path)
    names = ("num_beams", "length_penalty", "max_length", "min_length", "early_stopping")
    assert [found[name] for name in names] == [5, 1.0, 51, 2, True]
    defaults = {"beam": 3, "lenpen": 0.6, "min_len": 0, "max_len_b": 20, "finalize": "hf"}
    found = generation_of(tmp_path, {**defaults, "no_repeat_ngram_size": 2})
    assert [found[name] for name in names] == [3, 0.6, 22, 0, False]
    assert found["no_repeat_ngram_size"] == 2


def test_a_warning_names_options_that_transformers_lacks(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        generation_of(tmp_path, {"unkpen": 3, "max_len_a": 1.5})
    assert "--unkpen 3, --max-len-a 1.5: transformers does not" in caplog.text


def test_languages(tmp_path):
    languages = Languages({"en": "__en__", "de": "__de__"}, "{source} {text} </s>", "</s> {target}")
    found = generation_of(tmp_path, languages=languages, pair=Pair("en", "de"))
    assert (found["decoder_start_token_id"], found["forced_bos_token_id"]) == (2, 7)
    languages = Languages(languages.tokens, "{text} </s> {source}", "{target}")
    found = generation_of(tmp_path, languages=languages, pair=Pair("de", "en"))
    assert found["decoder_start_token_id"] == 6 and "forced_bos_token_id" not in found


def test_transformers_decodes_as_fairseq(tmp_path):
    """Both choose the best type of the same distribution until the maximum length."""
    dictionaries = dictionaries_of(True)
    model, args, _ = model_of(dictionaries, **PRE, **SHARED)
    export(
        args, model.state_dict(), dictionaries, {}, tmp_path, defaults={"beam": 1, "max_len_b": 9}
    )
    theirs = opened(tmp_path, "m2m_100")
    source = torch.tensor([[5, 9, 4, 2]])
    found = theirs.generate(source)[0].tolist()
    tokens = [2]
    with torch.no_grad():
        for step in range(9):
            logits = model(source, torch.tensor([4]), torch.tensor([tokens]))[0][0, -1]
            logits[1] = -torch.inf
            if step == 0:
                logits[2] = -torch.inf
            tokens.append(int(logits.argmax()))
            if tokens[-1] == 2:
                break
    assert found == (tokens if tokens[-1] == 2 else [*tokens, 2])


@pytest.mark.parametrize("kind", [kind for kind in tiny.KINDS if kind != "marian"])
def test_imported_models(tmp_path, kind):
    """Written and read again, they are the same; tokenizers without a writer are copied."""
    (tmp_path / "in").mkdir()
    tiny.save(tmp_path / "in", kind)
    imported = huggingface.read(tmp_path / "in")
    model, task = tiny.built(imported)
    dictionaries = Dictionaries(task.source_dictionary, task.target_dictionary)
    languages = Languages(imported.languages, imported.source_format, imported.target_format)
    pair = Pair(imported.source_lang, imported.target_lang)
    args = tiny.building.options_of(imported)
    written = export(
        args, model.state_dict(), dictionaries, imported.files, tmp_path / "out", languages, pair,
        {**imported.defaults},
    )  # fmt: skip
    if len(written) == 3:
        for path in (tmp_path / "in").iterdir():
            if not (tmp_path / "out" / path.name).exists():
                (tmp_path / "out" / path.name).write_bytes(path.read_bytes())
    again = huggingface.read(tmp_path / "out")
    for name, value in imported.state.items():
        assert torch.equal(value, again.state[name]), name
    for name in ("source", "target", "languages", "source_format", "target_format", "bpe"):
        assert getattr(again, name) == getattr(imported, name), name
