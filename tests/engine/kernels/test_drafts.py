"""Sequential heads by compiled code: what torch computes, and nothing else is touched."""

import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairseq_fastdec.engine import DecoderSession, Features
from fairseq_fastdec.engine.kernels import structures
from fairseq_fastdec.engine.kernels.best_token import BestToken
from fairseq_fastdec.engine.kernels.blocks import RowBlocks
from fairseq_fastdec.engine.kernels.drafts import ChainRequest, Flags
from fairseq_fastdec.engine.kernels.loading import library
from fairseq_fastdec.engine.kernels.top_k import TopK
from fairseq_fastdec.engine.network.drafter import Drafter
from fairseq_fastdec.engine.products.precision import PRECISIONS as BY_NAME
from fairseq_fastdec.engine.session.direct_steps import DirectSteps
from fairseq_fastdec.generators.single import drafting
from fairseq_fastdec.generators.single.trees import padded
from tests.support import tiny
from tests.support.compiled import PRECISIONS, compiled, threads

TASK = tiny.task(20)
V = len(TASK.target_dictionary)
PAD, EOS, UNK = 1, 2, 3
FUZZ = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def tiny_model(**options):
    heads = dict(block_heads="sequential", identity_first_head=True)
    return tiny.build_model(TASK, "blockwise_transformer", **heads, **options)


def drafter_of(model):
    return Drafter.of(model.decoder, BY_NAME["model"])


class Rows:
    """A session's rows after a step, what they go on from, and compiled code for that."""

    def __init__(self, lengths=(4, 2), precision="model", spoil=None, temperature=1.0, **options):
        self.model = tiny.stir(tiny_model(**options))
        if spoil is not None:
            spoil(self.model.decoder.heads)
        self.session = DecoderSession(self.model, precision)
        self.session.reset(30)
        self.session.add(tiny.random_batch(TASK, list(lengths))["net_input"])
        self.n = len(lengths)
        tokens = torch.arange(4, 4 + self.n)[:, None]
        self.features = self.session.step(tokens)[:, 0].contiguous()
        self.session.commit(1)
        self.next_tokens = torch.arange(6, 6 + self.n)
        self.best = BestToken.of([PAD], EOS, UNK, 0.0, temperature)
        self.chooser = TopK.of([PAD], EOS, UNK, 0.0)
        self.temperature = temperature

    def compiled(self):
        direct = DirectSteps.of(self.session.network, self.session.rows)
        return direct.drafts(rough=False), direct.sources()

    def chains(self, n_steps, flags=Flags(), confidence=0.0, **changes):
        drafts, sources = self.compiled()
        self.best.bind(drafts.layer, drafts.types)
        proposals = torch.zeros(self.n, n_steps, dtype=torch.long)
        request = ChainRequest(
            sources._replace(**changes),
            self.features.data_ptr(),
            self.next_tokens.data_ptr(),
            n_steps,
            self.best,
            flags,
            proposals.data_ptr(),
            confidence,
        )
        n = drafts.compiled.chains_at(request)
        return proposals.flatten()[: self.n * n].view(self.n, n)

    def chains_by_torch(self, n_steps, no_end=None, confidence=0.0):
        states, tokens = self.session.begin_drafts(self.features, False), self.next_tokens[:, None]
        chains, chances = [], torch.ones(self.n, 1)
        for step in range(n_steps):
            if chances.mean() < confidence:
                break
            states = self.session.extend_drafts(states, tokens, False)
            logits = self.session.draft_logits(states, False) / self.temperature
            probs = logits.softmax(-1)
            logits[..., PAD] = -math.inf
            if no_end is not None:
                logits[no_end[step], :, EOS] = -math.inf
            tokens = logits.argmax(dim=-1)
            chains.append(tokens)
            chances = chances * probs.gather(-1, tokens[..., None]).squeeze(-1)
            if confidence:
                chances = chances.masked_fill(tokens.eq(EOS), 0)
        return torch.cat(chains, dim=1)

    def trees(self, n_levels, n, width, flags=Flags(), confidence=0.0, **changes):
        """The blocks that trees became, and how many tokens each has."""
        drafts, sources = self.compiled()
        blocks = RowBlocks.of(self.n, n + 1, self.features.size(1))
        outputs = torch.zeros(self.n, 9, dtype=torch.long), torch.zeros(self.n, 9)
        blocks.write_to(*outputs, EOS, PAD)
        zeros = torch.zeros(self.n, dtype=torch.long)
        blocks.bind(torch.arange(self.n), zeros, zeros.bool())
        blocks.next_tokens[:] = self.next_tokens
        drafts.compiled.trees_at(
            sources._replace(**changes),
            self.features.data_ptr(),
            n_levels,
            n,
            width,
            drafts.layer,
            self.chooser,
            self.temperature,
            flags,
            blocks,
            confidence,
        )
        return blocks


@compiled
@settings(FUZZ, max_examples=25)
@given(
    n_heads=st.sampled_from([1, 2, 3]), head_dim=st.sampled_from([4, 8, 18, 32]),
    hidden=st.integers(1, 90), n_steps=st.integers(0, 5),
    lengths=st.lists(st.integers(1, 19), min_size=1, max_size=5),
    activation=st.sampled_from(["relu", "gelu", "tanh"]), registers=st.sampled_from([4, 8, 16]),
    n_threads=st.integers(1, 3), may_end=st.booleans(), rank=st.integers(0, 40),
)  # fmt: skip
def test_chains_are_what_torch_computes(
    n_heads, head_dim, hidden, lengths, n_steps, activation, registers, n_threads, may_end, rank
):  # fmt: skip
    dim = n_heads * head_dim
    library().set_width(registers)
    try:
        with threads(n_threads):
            rows = Rows(
                lengths, encoder_embed_dim=dim, decoder_embed_dim=dim, activation_fn=activation,
                encoder_attention_heads=n_heads, decoder_attention_heads=n_heads,
                block_ffn_embed_dim=hidden, block_output_rank=rank if 0 < rank < dim else None,
            )  # fmt: skip
            no_end = None if may_end else torch.ones(n_steps, rows.n, dtype=torch.bool)
            ours = rows.chains(n_steps, Flags(no_end))
    finally:
        library().set_width(16)
    if n_steps:
        assert torch.equal(ours, rows.chains_by_torch(n_steps, no_end))


@compiled
@settings(FUZZ, max_examples=25)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4), n_steps=st.integers(1, 6),
    confidence=st.sampled_from([1e-9, 0.001, 0.01, 0.1, 1.0]), n_threads=st.integers(1, 3),
    temperature=st.sampled_from([1.0, 0.3]), may_end=st.booleans(),
)  # fmt: skip
def test_chains_end_where_they_are_improbable(
    lengths, n_steps, confidence, n_threads, temperature, may_end
):
    rows = Rows(lengths, temperature=temperature)
    no_end = None if may_end else torch.ones(n_steps, rows.n, dtype=torch.bool)
    with threads(n_threads):
        ours = rows.chains(n_steps, Flags(no_end), confidence)
    assert torch.equal(ours, rows.chains_by_torch(n_steps, no_end, confidence))
    assert torch.equal(ours, rows.chains(n_steps, Flags(no_end))[:, : ours.size(1)])


@compiled
def test_chains_that_have_all_ended_do_not_go_on():
    rows = Rows([4, 2])
    only_end = torch.zeros(4, 2, dtype=torch.bool)
    only_end[1] = True
    chains = rows.chains(4, Flags(None, only_end), confidence=1e-30)
    assert chains.size(1) == 2 and chains[:, 1].eq(EOS).all()
    assert rows.chains(4, Flags(None, only_end)).size(1) == 4


@compiled
@pytest.mark.parametrize("rank", [None, 8])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_rows_have_the_chains_that_they_have_alone(precision, rank):
    lengths = [5, 9, 2, 7]
    together = Rows(lengths, precision, block_output_rank=rank)
    chains = together.chains(6)
    for row, length in enumerate(lengths):
        alone = Rows([length], precision, block_output_rank=rank)
        source = tiny.random_batch(TASK, lengths)["net_input"]["src_tokens"][row]
        source = source[source.ne(PAD)]
        alone.session.reset(30)
        alone.session.add(dict(src_tokens=source[None], src_lengths=torch.tensor([len(source)])))
        alone.features = alone.session.step(torch.tensor([[4 + row]]))[:, 0].contiguous()
        alone.session.commit(1)
        alone.next_tokens = together.next_tokens[row : row + 1].clone()
        assert torch.equal(alone.chains(6)[0], chains[row])


@compiled
@settings(FUZZ, max_examples=15)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4), n_levels=st.integers(1, 4),
    n=st.integers(1, 30), width=st.integers(1, 6), n_threads=st.integers(1, 3),
    must_end=st.booleans(), temperature=st.sampled_from([1.0, 1.7]),
    confidence=st.sampled_from([0.0, 0.001, 0.05, 1.0]), rank=st.sampled_from([None, 5]),
)  # fmt: skip
def test_trees_are_what_torch_computes(
    lengths, n_levels, n, width, n_threads, must_end, temperature, confidence, rank
):
    rows = Rows(lengths, temperature=temperature, block_output_rank=rank)
    flags = Flags()
    if must_end:
        flags = Flags(None, torch.zeros(n_levels, rows.n, dtype=torch.bool))
        flags.only_end[-1] = True
    with threads(n_threads):
        blocks = rows.trees(n_levels, n, width, flags, confidence)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drafting, "MOST_EXPANDED", width)
        batch, features = BatchOf(rows, flags.only_end), Features([rows.features])
        expected = drafting.draft_trees(batch, features, rows.next_tokens, n_levels, n, confidence)
    longest = max(len(tree.tokens) for tree in expected)
    assert blocks.n_new == longest
    shape = (rows.n, longest)
    for row, tree in enumerate(padded(expected, PAD)):
        for ours, theirs in zip((blocks.tokens, blocks.parents, blocks.depths), tree[:3]):
            assert ours[: rows.n * longest].view(shape)[row].tolist() == theirs
        scores = blocks.path_scores[: rows.n * longest].view(shape)[row]
        finite = [max(score, -1e30) for score in tree.path_scores]
        torch.testing.assert_close(
            scores.clamp(min=-1e30), torch.tensor(finite), atol=1e-4, rtol=1e-4
        )


class BatchOf:
    """As much of a batch as trees by torch ask for."""

    def __init__(self, rows, only_end):
        self._rows, self._only_end = rows, only_end
        self.session, self.rules = self, self
        self.eos = EOS

    def begin_drafts(self, features, rough):
        return Features([self._rows.session.begin_drafts(features.of_members[0], False)])

    def extend_drafts(self, states, tokens, rough):
        own = self._rows.session.extend_drafts(states.of_members[0], tokens, False)
        return Features([own])

    def draft_scores(self, states, rough):
        logits = self._rows.session.draft_logits(states.of_members[0], False)
        return logits / self._rows.temperature

    def ranked_drafts(self, scores, depth, n_best):
        log_probs = scores.log_softmax(-1)
        log_probs[:, PAD] = -math.inf
        if self._only_end is not None:
            ends = self._only_end[depth - 1].repeat_interleave(len(scores) // self._rows.n)
            of_end = log_probs[ends, EOS]
            log_probs[ends] = -math.inf
            log_probs[ends, EOS] = of_end
        best, tokens = log_probs.topk(min(n_best, V), dim=1)
        return best.numpy(), tokens.numpy()


@compiled
@settings(FUZZ, max_examples=15)
@given(draw=st.randoms(), precision=st.sampled_from(["model", "int8"]), n=st.integers(1, 20))
def test_weights_that_are_no_numbers(draw, precision, n):
    """Proposals may be anything then; tokens stay in the dictionary, and trees are trees."""
    if precision == "int8" and not library().has_int8:
        precision = "model"

    def spoil(heads):
        with torch.no_grad():
            for parameter in heads.parameters():
                if draw.random() < 0.4:
                    number = draw.choice([math.nan, math.inf, -math.inf, 3e38])
                    parameter.view(-1)[draw.randrange(parameter.numel())] = number

    rows = Rows([3, 8, 1], precision, spoil)
    chains = rows.chains(4)
    assert bool(((chains >= 0) & (chains < V)).all())
    blocks = rows.trees(3, n, 3)
    size = rows.n * blocks.n_new
    assert bool(((blocks.tokens[:size] >= 0) & (blocks.tokens[:size] < V)).all())
    parents = blocks.parents[:size].view(rows.n, -1)
    assert bool((parents < torch.arange(blocks.n_new)).all())


@compiled
@pytest.mark.parametrize("name", ["past", "row_source", "source_lengths"])
@pytest.mark.parametrize("wrong", [-1, 10**6, 2**62, -(2**63)])
def test_rows_and_sources_that_are_not_there(name, wrong):
    rows = Rows()
    if (name, wrong) == ("past", 10**6):
        return  # the length of a row is only a bound of what its sources have
    numbers = getattr(rows.compiled()[1], name).clone()
    numbers[1] = wrong
    with pytest.raises(IndexError, match="rows or sources"):
        rows.chains(2, **{name: numbers})
    with pytest.raises(IndexError, match="rows or sources"):
        rows.trees(2, 5, 2, **{name: numbers})


@compiled
@pytest.mark.parametrize("wrong", [-1, V, 2**40])
def test_tokens_that_are_not_in_the_dictionary(wrong):
    rows = Rows()
    rows.next_tokens[1] = wrong
    for call in (lambda: rows.chains(2), lambda: rows.trees(2, 5, 2)):
        with pytest.raises(IndexError, match="tokens that are not in the dictionary"):
            call()


@compiled
@pytest.mark.parametrize("name", ["begin", "token", "query", "source", "fc1", "fc2", "narrow"])
def test_layers_whose_sizes_do_not_fit_together(name):
    rows = Rows(block_output_rank=8)
    getattr(rows.compiled()[0].compiled._draft, name).inputs += 32
    with pytest.raises(ValueError, match="sizes"):
        rows.chains(2)
    with pytest.raises(ValueError, match="sizes"):
        rows.trees(2, 5, 2)


@compiled
@pytest.mark.parametrize("outputs", [7, 9, 33, -1])
def test_an_output_rank_that_is_not_the_output_layers(outputs):
    rows = Rows(block_output_rank=8)
    rows.compiled()[0].compiled._draft.narrow.outputs = outputs
    with pytest.raises(ValueError, match="sizes"):
        rows.chains(2)
    with pytest.raises(ValueError, match="sizes"):
        rows.trees(2, 5, 2)


@compiled
@pytest.mark.parametrize("number", [-1, structures.EPILOGUES.index("add"), 6, 2**40])
def test_an_activation_that_is_none(number):
    rows = Rows()
    rows.compiled()[0].compiled._draft.step.model.activation = number
    with pytest.raises(ValueError, match="sizes"):
        rows.chains(2)


@compiled
@pytest.mark.parametrize(
    "flags",
    [
        Flags(torch.zeros(2, 3, dtype=torch.bool)),
        Flags(torch.zeros(2, 2)),
        Flags(None, torch.zeros(4, 2, dtype=torch.bool)[::2]),
    ],
)
def test_flags_of_other_kinds(flags):
    with pytest.raises(ValueError, match="rules about ends: torch"):
        Rows().chains(2, flags)
    with pytest.raises(ValueError, match="rules about ends: torch"):
        Rows().trees(2, 5, 2, flags)


@compiled
def test_trees_larger_than_their_blocks():
    rows = Rows()
    blocks = RowBlocks.of(2, 4, 32)
    with pytest.raises(ValueError, match="trees of 4 in blocks of 4"):
        blocks.place_trees(structures.DraftTrees(n_proposals=4))
    assert rows.trees(2, 3, 2).n_new == 4


@compiled
def test_more_rows_and_wider_levels_get_more_memory():
    rows = Rows([3] * 2)
    few = rows.trees(2, 3, 1).tokens[:8].clone()
    rows.trees(4, 30, 6)
    assert torch.equal(rows.trees(2, 3, 1).tokens[:8], few)


@compiled
def test_states_of_another_size_than_the_sources_keys_are_left_to_torch():
    assert drafter_of(tiny_model()).compiled() is not None
    assert drafter_of(tiny_model(decoder_output_dim=24)).compiled() is None


@compiled
def test_an_activation_without_compiled_code_is_left_to_torch():
    assert drafter_of(tiny_model(activation_fn="swish")).compiled() is None


def test_without_compiled_code_there_is_none(nothing_compiled):
    assert drafter_of(tiny_model()).compiled() is None
