"""Proposals of heads that see the tokens before theirs: chains and trees."""

import itertools

import pytest
import torch

from fairseq_fastdec.engine import Features
from fairseq_fastdec.engine.kernels.drafts import CompiledDrafter
from fairseq_fastdec.engine.products.precision import PRECISIONS as BY_NAME
from fairseq_fastdec.generators.single import compiled_blocks, drafting
from fairseq_fastdec.generators.single.batch import Batch
from fairseq_fastdec.generators.single.compiled_blocks import CompiledBlocks
from fairseq_fastdec.generators.sources import Sources
from tests.support import tiny
from tests.support.against_fairseq import our_generator
from tests.support.blockwise import EOS
from tests.support.compiled import PRECISIONS, compiled
from tests.support.trained_models import TASK, blockwise_model

pytestmark = pytest.mark.usefixtures("without_compiled_search")
SAMPLE = tiny.random_batch(TASK, [1, 4, 8, 9, 12, 0, 7, 3, 10, 11], seed=2)
PREFIX = torch.tensor([[7, 8, 9], [8, 1, 1], [EOS, 1, 1]] + [[5, 5, 1]] * 7)
METHODS = {
    "chain": dict(),
    "chain of all heads": dict(proposal_confidence=0.0),
    "chain of few heads": dict(proposal_confidence=1.0),
    "short chain": dict(decoding_block_size=2),
    "block of one": dict(decoding_block_size=1),
    "tree": dict(proposal_tree=7),
    "tree of all heads": dict(proposal_confidence=0.0, proposal_tree=7),
    "large tree": dict(proposal_tree=31),
    "tree of one": dict(proposal_tree=1),
    "few types": dict(proposal_types=12),
    "tree of few types": dict(proposal_types=12, proposal_tree=7),
}
CONDITIONS = {
    "as it is": {},
    "one sentence": {},
    "a prefix": dict(prefix_tokens=PREFIX),
    "a length limit": dict(max_len_b=5),
    "lengths alike": dict(min_len=7, max_len_b=7),
    "unknown words": dict(unk_penalty=-2.0),
    "temperature": dict(temperature=1.7),
    "no repeated n-grams": dict(no_repeat_ngram_size=2),
}
RANDOM_OPTIONS = dict(block_heads="sequential", identity_first_head=True, block_size=4)


def trained_model(**options):
    return blockwise_model(block_heads="sequential", **options)


def random_model(seed=0, **options):
    model = tiny.build_model(TASK, "blockwise_transformer", **RANDOM_OPTIONS, **options)
    return tiny.stir(model, seed)


def found(models, options, condition="as it is", decoding="blockwise", sample=SAMPLE, **more):
    limits = {"max_len_b": 12, **CONDITIONS[condition]}
    prefix = limits.pop("prefix_tokens", None)
    if condition == "one sentence":
        sample = tiny.random_batch(TASK, [9], seed=5)
    generator = our_generator(models, decoding, {**options, **more}, **limits)
    hypotheses = generator.generate(models, sample, prefix_tokens=prefix)
    return [hypothesis[0] for hypothesis in hypotheses], generator.statistics


def assert_greedys(models, options, condition="as it is", exact=False, **more):
    own, statistics = found(models, options, condition, **more)
    expected, _ = found(models, {}, condition, "greedy", **more)
    for one, other in zip(own, expected):
        assert one["tokens"].tolist() == other["tokens"].tolist()
        scores = one["positional_scores"], other["positional_scores"]
        if exact:
            assert torch.equal(*scores)
        torch.testing.assert_close(*scores, atol=1e-4, rtol=1e-4)
    return statistics


@pytest.mark.parametrize("by", [pytest.param("compiled code", marks=compiled), "torch"])
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("method", METHODS)
def test_outputs_are_greedys(method, condition, by, monkeypatch):
    if by == "torch":
        monkeypatch.setattr(CompiledBlocks, "of", lambda *_: None)
    for model in (trained_model(), random_model()):
        assert_greedys([model], METHODS[method], condition)


@compiled
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("method", ["chain", "tree", "few types"])
def test_scores_are_greedys_bit_for_bit(method, precision):
    options = dict(engine_precision=precision)
    assert_greedys([trained_model()], METHODS[method], exact=True, **options)


@compiled
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("method", ["chain", "tree", "few types"])
def test_compiled_code_makes_all_proposals(method, precision, monkeypatch):
    by_torch = []
    for name in ("draft_chain", "draft_trees"):
        monkeypatch.setattr(compiled_blocks, name, lambda *args: by_torch.append(args))
    found([trained_model()], METHODS[method], engine_precision=precision)
    assert not by_torch


@compiled
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("confidence", [0.0, 0.5, 1.0])
def test_a_verification_drafts_the_next_chains(condition, confidence, monkeypatch):
    """The chains are those of calls of their own, of which fewer are left."""
    models, options = [trained_model()], dict(proposal_confidence=confidence)
    calls, chains_at = [], CompiledDrafter.chains_at
    monkeypatch.setattr(
        CompiledDrafter, "chains_at", lambda *args: calls.append(args) or chains_at(*args)
    )
    at_once, statistics = found(models, options, condition)
    n_left = len(calls)
    calls.clear()
    monkeypatch.setattr(CompiledBlocks, "announce_chains", lambda *_: None)
    apart, expected = found(models, options, condition)
    for one, other in zip(at_once, apart):
        assert torch.equal(one["tokens"], other["tokens"])
        assert torch.equal(one["positional_scores"], other["positional_scores"])
    assert statistics == expected
    # Where rows have left, near limits of the lengths, and without verifications in one call.
    assert n_left <= len(calls)
    assert n_left < len(calls) or condition not in ("as it is", "one sentence")


@pytest.mark.parametrize(
    "options",
    [
        dict(decoder_output_dim=24, decoder_input_dim=24),
        dict(decoder_normalize_before=True, activation_fn="gelu", decoder_learned_pos=True),
        dict(activation_fn="tanh", no_scale_embedding=True),
        dict(block_output_rank=8),
    ],
)
@pytest.mark.parametrize("method", ["chain", "tree", "few types"])
def test_other_networks(method, options):
    assert_greedys([random_model(**options)], METHODS[method])


@pytest.mark.parametrize("method", ["chain", "tree"])
def test_in_double_precision(method):
    model = random_model().double()
    own, expected = found([model], METHODS[method])[0], found([model], {}, decoding="greedy")[0]
    for one, other in zip(own, expected):
        assert one["tokens"].tolist() == other["tokens"].tolist()


@pytest.mark.parametrize("method", ["chain", "tree", "large tree"])
def test_ensembles(method):
    assert_greedys([trained_model(), trained_model(seed=1)], METHODS[method])


def test_ensembles_of_both_kinds_are_refused():
    models = [trained_model(), blockwise_model()]
    with pytest.raises(ValueError, match="--path: models with and without --block-heads seq"):
        our_generator(models, "blockwise", {})
    found(models, {}, decoding="auto")


@pytest.mark.parametrize("options", [dict(), dict(block_output_rank=16)])
def test_trained_heads_are_right(options):
    """The models reverse: heads that see what comes before them know how that goes on."""
    model = trained_model(**options)
    chain = assert_greedys([model], METHODS["chain"])
    tree = assert_greedys([model], METHODS["tree"])
    greedy = found([model], {}, decoding="greedy")[1]
    assert tree.decoder_invocations < chain.decoder_invocations < greedy.decoder_invocations


def first_batch(model, sample=SAMPLE):
    """A batch, and p_1's features and tokens after BOS."""
    generator = our_generator([model], "blockwise", {}, max_len_b=12)
    sources = Sources.of(sample, generator.rules.pad)
    batch = Batch(generator.session, generator.rules, generator.statistics, sources)
    last = batch.open(EOS, None)
    features = batch.feed_known(last[:, None])
    return batch, features[:, 0], batch.answers(features)[1][:, 0]


def log_probs_of(model, sample, tokens, head):
    """p_{head + 1}'s log-probabilities after EOS and these tokens, as the model itself says."""
    n_rows = sample["net_input"]["src_tokens"].size(0)
    fed = torch.tensor([[EOS, *tokens]] * n_rows)
    net = {**sample["net_input"], "prev_output_tokens": fed}
    with torch.no_grad():
        log_probs = model(**net, head=head)[0][:, 0].log_softmax(-1)
    log_probs[:, TASK.target_dictionary.pad()] = -torch.inf
    return log_probs


@pytest.mark.parametrize("rank", [None, 8])
@pytest.mark.parametrize("temperature", [1.0, 1.7])
def test_a_chain_is_what_the_models_own_forward_says(temperature, rank):
    model, sample = random_model(block_output_rank=rank), tiny.random_batch(TASK, [6], seed=4)
    batch, features, next_tokens = first_batch(model, sample)
    batch.session.temperature = temperature
    chain = drafting.draft_chain(batch, features, next_tokens, 3)[0].tolist()
    known = next_tokens.tolist()
    for head, token in enumerate(chain, start=1):
        assert token == int(log_probs_of(model, sample, known, head)[0].argmax())
        known.append(token)


def test_an_improbable_chain_ends():
    model = random_model()
    batch, features, next_tokens = first_batch(model, tiny.random_batch(TASK, [6], seed=4))
    args = (batch, features, next_tokens, 3)
    whole = drafting.draft_chain(*args)
    (known,) = next_tokens.tolist()
    sample = tiny.random_batch(TASK, [6], seed=4)
    chance = log_probs_of(model, sample, [known], 1)[0, whole[0, 0]].exp().item()
    cut = drafting.draft_chain(*args, confidence=1.01 * chance)
    assert torch.equal(cut, whole[:, :1])
    assert drafting.draft_chain(*args, confidence=0.99 * chance).size(1) > 1


@pytest.mark.parametrize(
    "options", [dict(acceptance="topk", acceptance_topk=9), dict(min_block_size=3)]
)
def test_where_outputs_depend_on_proposals_there_are_all(options):
    ours = found([random_model()], options)[0]
    all_heads = found([random_model()], {**options, "proposal_confidence": 0.0})[0]
    few_heads = found([random_model()], {**options, "proposal_confidence": 1.0})[0]
    tokens = [[one["tokens"].tolist() for one in each] for each in (ours, all_heads, few_heads)]
    assert tokens[0] == tokens[1] != tokens[2]


def test_a_tree_has_the_most_probable_paths(monkeypatch):
    """Against all paths of a small vocabulary, where no level is cut short."""
    monkeypatch.setattr(drafting, "MOST_EXPANDED", 1000)
    model, sample = random_model(), tiny.random_batch(TASK, [6], seed=4)
    batch, features, next_tokens = first_batch(model, sample)
    monkeypatch.setattr(batch.session.members[0]._network.output, "_precision_for", exact_precision)
    n = 40
    (tree,) = drafting.draft_trees(batch, features, next_tokens, 2, n)
    root, size = int(next_tokens), len(TASK.target_dictionary)
    first = log_probs_of(model, sample, [root], 1)[0]
    paths = {(token,): float(first[token]) for token in range(size)}
    for token in range(size):
        if token != EOS:
            second = log_probs_of(model, sample, [root, token], 2)[0]
            for other in range(size):
                paths[token, other] = float(first[token] + second[other])
    expected = sorted(paths.values(), reverse=True)[:n]
    torch.testing.assert_close(
        torch.tensor(tree.path_scores[1:]), torch.tensor(expected), atol=1e-4, rtol=1e-4
    )
    for index in range(1, n + 1):
        path, at = [], index
        while at:
            path.insert(0, tree.tokens[at])
            at = tree.parents[at]
        assert len(path) == tree.depths[index]
        assert paths[tuple(path)] == pytest.approx(tree.path_scores[index], abs=1e-4)


def exact_precision(rough):
    return BY_NAME["model"]


def test_a_tree_is_ordered_and_nothing_follows_an_end():
    model = random_model()
    batch, features, next_tokens = first_batch(model)
    for tree in drafting.draft_trees(batch, features, next_tokens, 3, 20):
        assert tree.path_scores == sorted(tree.path_scores, reverse=True)
        assert all(parent < index for index, parent in enumerate(tree.parents))
        assert all(tree.tokens[parent] != EOS for parent in tree.parents[1:] if parent > 0)
        siblings = list(zip(tree.parents[1:], tree.tokens[1:]))
        assert len(siblings) == len(set(siblings)) == 20


def test_rows_have_the_trees_that_they_have_alone():
    model = random_model()
    batch, features, next_tokens = first_batch(model)
    together = drafting.draft_trees(batch, features, next_tokens, 3, 9)
    for row, length in itertools.islice(enumerate([1, 4, 8, 9, 12, 0]), 6):
        source = SAMPLE["net_input"]["src_tokens"][row]
        source = source[source.ne(TASK.source_dictionary.pad())]
        net = dict(
            src_tokens=source[None],
            src_lengths=torch.tensor([len(source)]),
            prev_output_tokens=torch.tensor([[EOS]]),
        )
        assert len(source) == length + 1
        batch, own, next_token = first_batch(model, {"net_input": net, "id": torch.tensor([0])})
        assert isinstance(own, Features)
        (tree,) = drafting.draft_trees(batch, own, next_token, 3, 9)
        assert tree.tokens == together[row].tokens
        assert tree.parents == together[row].parents
