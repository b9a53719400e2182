"""The options of Marian: first inputs, positions, norms, the output layer, activations."""

import argparse
import math
import re

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.sequence_generator import SequenceGenerator
from torch.nn import functional as F

from fairseq_fastdec.models.finetuning import MARIAN, check_finetuned
from fairseq_fastdec.models.marian_transformer import FirstInputEmbedding, Sinusoids
from tests.support import command_line, tiny
from tests.support.command_line import hypotheses
from tests.support.full_forward import random_targets

TASK = tiny.task(20)
ARCH = "marian_transformer"
WORDS = TASK.target_dictionary
PAD, EOS = WORDS.pad(), WORDS.eos()


def model_with(arch=ARCH, **options):
    return tiny.stir(tiny.build_model(TASK, arch, **options))


def logits(model, tokens, batch=None):
    batch = batch or tiny.random_batch(TASK, [5] * len(tokens))
    with torch.no_grad():
        return model(**{**batch["net_input"], "prev_output_tokens": tokens})[0]


def test_the_first_input_has_the_embedding_of_padding():
    decoder = model_with().decoder
    embedded = decoder.embed_tokens(torch.tensor([[EOS, 7, PAD]]))
    assert torch.equal(embedded[0, 0], decoder.embed_tokens.weight[PAD])
    assert torch.equal(embedded[0, 2], decoder.embed_tokens.weight[PAD])
    assert torch.equal(embedded[0, 1], decoder.embed_tokens.weight[7])
    assert not torch.equal(embedded[0, 0], decoder.embed_tokens.weight[EOS])
    new = tiny.build_model(TASK, ARCH).decoder
    assert not new.embed_tokens(torch.tensor([EOS])).any()


def test_the_row_of_eos_is_not_read_as_an_input():
    """It is the row of the output layer, which is shared."""
    model, tokens = model_with(), random_targets(TASK, 2, 4)
    before = logits(model, tokens)
    with torch.no_grad():
        model.decoder.embed_tokens.weight[EOS] += 1
    sources = tiny.random_batch(TASK, [5, 5])
    after = logits(model, tokens, sources)
    others = [number for number in range(len(WORDS)) if number != EOS]
    # The encoder reads EOS, too.
    assert model.encoder.embed_tokens.weight is model.decoder.embed_tokens.weight
    assert not torch.equal(before[..., EOS], after[..., EOS])
    separate = model_with(share_all_embeddings=False)
    before = logits(separate, tokens, sources)
    with torch.no_grad():
        separate.decoder.embed_tokens.weight[EOS] += 1
    assert torch.equal(logits(separate, tokens, sources)[..., others], before[..., others])


def test_weights_are_shared():
    model = model_with()
    assert isinstance(model.decoder.embed_tokens, FirstInputEmbedding)
    weight = model.encoder.embed_tokens.weight
    assert model.decoder.embed_tokens.weight is weight
    assert model.decoder.output_projection.weight is weight
    stock = model_with(first_input="eos")
    assert type(stock.decoder.embed_tokens) is type(stock.encoder.embed_tokens)


SIZES = [6, 7, 32]


@pytest.mark.parametrize("dim", SIZES)
@pytest.mark.parametrize("kind", ["marian", "transformers"])
def test_positions_begin_at_0(kind, dim):
    """Against the formulas of Marian and of MarianMT in transformers, number by number."""
    positions = Sinusoids(dim, PAD, kind, init_size=5)
    tokens = torch.tensor([[7, 8, 9, PAD, PAD], [PAD, 5, 6, 7, 8]])
    found, half = positions(tokens), dim // 2
    for row, places in ((0, [0, 1, 2]), (1, [None, 0, 1, 2, 3])):
        for column, place in enumerate(places):
            if place is None:
                continue
            for unit in range(dim):
                rate = unit % half if unit < 2 * half else None
                if rate is None:
                    expected = 0.0
                elif kind == "marian":
                    angle = place * 10000 ** (-rate / max(half - 1, 1))
                    expected = math.sin(angle) if unit < half else math.cos(angle)
                else:
                    angle = place / 10000 ** (2 * rate / dim)
                    expected = math.sin(angle) if unit < half else math.cos(angle)
                assert found[row, column, unit].item() == pytest.approx(expected, abs=1e-6)
    assert not found[0, 3:].any() and not found[1, 0].any()


@pytest.mark.parametrize("kind", ["marian", "transformers"])
def test_longer_sentences_and_single_steps(kind):
    positions = Sinusoids(8, PAD, kind, init_size=3)
    tokens = torch.full((2, 40), 7)
    found = positions(tokens)
    torch.testing.assert_close(found, Sinusoids(8, PAD, kind, init_size=100)(tokens))
    for length in (1, 17, 40):
        step = positions(tokens[:, :length], incremental_state={})
        torch.testing.assert_close(step[0].flatten(), found[0, length - 1])


def test_positions_of_both_sides():
    model = model_with(sinusoids="marian")
    for coder in (model.encoder, model.decoder):
        assert isinstance(coder.embed_positions, Sinusoids)
        assert coder.embed_positions.kind == "marian"
    assert not isinstance(model_with(sinusoids="fairseq").encoder.embed_positions, Sinusoids)
    learned = model_with(encoder_learned_pos=True, decoder_learned_pos=True)
    assert not isinstance(learned.decoder.embed_positions, Sinusoids)
    assert not [name for name in model.state_dict() if "embed_positions" in name]


def test_norms():
    model = model_with(norm_epsilon=1e-3)
    norms = [own for own in model.modules() if isinstance(own, torch.nn.LayerNorm)]
    assert len(norms) == 2 * 2 + 2 * 3 and {norm.eps for norm in norms} == {1e-3}
    before = dict(encoder_normalize_before=True, decoder_normalize_before=True)
    model = model_with(no_final_norms=True, **before)
    assert model.encoder.layer_norm is None and model.decoder.layer_norm is None
    assert model_with(**before).decoder.layer_norm is not None


def test_an_epsilon_counts():
    tokens = random_targets(TASK, 2, 4)
    small, large = (logits(model_with(norm_epsilon=own), tokens) for own in (1e-6, 1e-1))
    assert not torch.allclose(small, large)


def test_the_output_layer_has_a_bias():
    model, tokens = model_with(), random_targets(TASK, 2, 4)
    before = logits(model, tokens)
    bias = model.decoder.output_projection.bias
    change = torch.randn(len(WORDS))
    with torch.no_grad():
        bias += change
    torch.testing.assert_close(logits(model, tokens), before + change)
    assert not tiny.build_model(TASK, ARCH).decoder.output_projection.bias.any()
    assert model_with(output_bias=False).decoder.output_projection.bias is None


def test_a_checkpoint_without_a_bias_has_zeros():
    model = model_with()
    state = dict(model.state_dict())
    del state["decoder.output_projection.bias"]
    other = tiny.build_model(TASK, ARCH, seed=5)
    other.load_state_dict(state)
    assert not other.decoder.output_projection.bias.any()


def test_swish():
    layer = model_with().decoder.layers[0]
    assert layer.activation_fn is F.silu
    x = torch.tensor([-2.0, 0.0, 3.0])
    expected = [value / (1 + math.exp(-value)) for value in x.tolist()]
    assert layer.activation_fn(x).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("arch", [ARCH, "blockwise_transformer"])
def test_the_defaults_of_other_architectures_are_stock(arch):
    """All options are those of a stock transformer, and so are its logits."""
    options = {**MARIAN, "activation_fn": "relu", "share_all_embeddings": False}
    more = {"identity_first_head": True} if arch != ARCH else {}
    ours, stock = tiny.build_model(TASK, arch, **options, **more), tiny.build_model(TASK)
    tiny.stir(stock)
    missing, unexpected = ours.load_state_dict(stock.state_dict(), strict=False)
    assert not missing and not unexpected
    tokens, batch = random_targets(TASK, 2, 4), tiny.random_batch(TASK, [5, 3])
    assert torch.equal(logits(ours, tokens, batch), logits(stock, tokens, batch))


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(first_input="bos"), "--first-input bos: choose from eos, pad"),
        (dict(sinusoids="other"), "--sinusoids other: choose from fairseq, marian, transformers"),
        (dict(decoder_autoreg="rnn"), "--decoder-autoreg rnn: choose from self-attention, ssru"),
    ],
)
def test_unknown_values(options, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        tiny.build_model(TASK, ARCH, **options)


@pytest.mark.parametrize(
    "arch, sizes",
    [(ARCH, (512, 2048, 6, 6, "swish")), ("ssru_transformer", (256, 1536, 6, 2, "relu"))],
)
def test_presets(arch, sizes):
    args = argparse.Namespace()
    ARCH_CONFIG_REGISTRY[arch](args)
    names = ("embed_dim", "ffn_embed_dim", "layers")
    dim, ffn, layers = (getattr(args, f"decoder_{name}") for name in names)
    assert (dim, ffn, args.encoder_layers, layers, args.activation_fn) == sizes
    assert args.first_input == "pad" and args.norm_epsilon == 1e-6 and args.output_bias


@pytest.mark.parametrize("arch", [ARCH, "ssru_transformer"])
def test_fairseqs_beam_search(arch):
    """Its incremental decoding has the scores of the full forward pass."""
    model = tiny.train(tiny.build_model(TASK, arch), TASK, updates=60, lr=1e-2)
    sample = tiny.random_batch(TASK, [4, 7, 2])
    generator = SequenceGenerator([model], WORDS, beam_size=4)
    for number, best in enumerate(generator.generate([model], sample)):
        net_input = {name: own[number : number + 1] for name, own in sample["net_input"].items()}
        tokens = best[0]["tokens"]
        inputs = torch.cat([torch.tensor([EOS]), tokens[:-1]])[None]
        found = logits(model, inputs, {"net_input": net_input})[0].log_softmax(-1)
        scores = found.gather(1, tokens[:, None])[:, 0]
        torch.testing.assert_close(scores, best[0]["positional_scores"], atol=1e-4, rtol=1e-4)


# --finetune-from-model


def checked(trained=None, own=None, arch="blockwise_transformer"):
    trained, own = trained or {}, own or {}
    old, new = tiny.build_model(TASK, ARCH, **trained), tiny.build_model(TASK, arch, **own)
    namespaces = [
        tiny.arguments(kind, **options) for kind, options in ((ARCH, trained), (arch, own))
    ]
    state = {"cfg": {"model": namespaces[0]}, "model": old.state_dict()}
    check_finetuned("pretrained.pt", state, namespaces[1], new)


# Those of --arch marian_transformer, as options of another architecture.
SAME = {
    "output_bias": True, "first_input": "pad", "sinusoids": "marian", "norm_epsilon": 1e-6,
    "activation_fn": "swish", "share_all_embeddings": True,
}  # fmt: skip


def test_models_that_agree():
    checked(own=SAME)
    checked(own={**SAME, "share_all_embeddings": False})
    ssru = {"decoder_autoreg": "ssru"}
    checked(ssru, {**SAME, **ssru})


@pytest.mark.parametrize(
    "trained, own, remedy",
    [
        ({}, {"output_bias": False}, "give --output-bias"),
        ({}, {"first_input": "eos"}, "give --first-input pad"),
        ({"sinusoids": "transformers"}, {}, "give --sinusoids transformers"),
        ({}, {"norm_epsilon": 1e-5}, "give --norm-epsilon 1e-06"),
        ({"decoder_autoreg": "ssru"}, {}, "give --decoder-autoreg ssru"),
        ({}, {"activation_fn": "relu"}, "give --activation-fn swish"),
        ({"output_bias": False}, {}, "remove --output-bias"),
        (
            {}, {"decoder_autoreg": "ssru", "sinusoids": "fairseq"},
            "give --sinusoids marian --decoder-autoreg self-attention",
        ),
    ],
)  # fmt: skip
def test_options_that_differ_are_named(trained, own, remedy):
    message = f"was trained with other options than this model; {remedy}"
    with pytest.raises(ValueError, match=f"{re.escape(message)}$"):
        checked(trained, {**SAME, **own})


# From the command line


SMALL = ["--share-all-embeddings", "--decoder-layers", "2"]


@pytest.fixture(scope="module", params=[ARCH, "ssru_transformer"])
def trained(request, corpus, made):
    """A model that fairseq-train has trained, and the same with heads."""

    def train(directory):
        command_line.train(
            corpus, directory, "--task", "translation", "--arch", request.param,
            "--criterion", "label_smoothed_cross_entropy", updates=100, lr="1e-2",
        )  # fmt: skip
        # The shape is that of the checkpoint.
        command_line.train(
            corpus, directory / "heads", "--task", "translation",
            "--arch", "blockwise_transformer", "--block-size", 3, "--identity-first-head",
            "--freeze-base", "--finetune-from-model", directory / "checkpoint_last.pt",
            "--criterion", "random_sub_loss", updates=30, sizes=(),
        )  # fmt: skip

    return made(f"trained {request.param}", train)


def test_trainings_learn(corpus, trained):
    output = command_line.generate(corpus, trained / "checkpoint_last.pt", "--decoding", "greedy")
    targets = dict(re.findall(r"(?m)^T-(\d+)\t(.*)$", output))
    found = hypotheses(output)
    assert len(set(found.values())) > len(found) / 3
    beginnings = [found[int(n)].split()[:1] == text.split()[:1] for n, text in targets.items()]
    assert sum(beginnings) > len(beginnings) / 2
    stock = command_line.generate(
        corpus, trained / "checkpoint_last.pt", "--decoding", "fairseq", "--beam", 1
    )
    assert hypotheses(stock) == found


def test_heads_on_an_imported_kind_of_model(corpus, trained, caplog):
    """Blockwise decoding has the output of greedy decoding with the model itself."""
    state = torch.load(trained / "heads" / "checkpoint_last.pt", weights_only=True)
    options = state["cfg"]["model"]
    assert options.first_input == "pad" and options.output_bias and options.sinusoids == "marian"
    before = torch.load(trained / "checkpoint_last.pt", weights_only=True)["model"]
    kept = [name for name in before if name in state["model"]]
    assert len(kept) == len(before)
    if not tiny.OLD_FAIRSEQ:
        assert all(torch.equal(before[name], state["model"][name]) for name in kept)
    greedy = command_line.generate(corpus, trained / "checkpoint_last.pt", "--decoding", "greedy")
    heads = command_line.generate(
        corpus, trained / "heads" / "checkpoint_last.pt", "--decoding", "blockwise"
    )
    assert hypotheses(heads) == hypotheses(greedy)
    assert "not compiled" not in caplog.text
