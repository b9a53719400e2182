"""Trees of tokens: each has the logits of a full forward pass over the path to it."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.engine import DecoderSession, TokenTree
from fairseq_fastdec.engine.kernels.loading import library
from fairseq_fastdec.engine.network.attention import tree_mask
from tests.support import skips, tiny
from tests.support.full_forward import TOLERANCE, full_logits, random_targets

TASK = tiny.task(20)
SOURCES = [3, 7, 0, 5]
ARCHITECTURES = {
    "post-norm": {},
    "pre-norm": dict(encoder_normalize_before=True, decoder_normalize_before=True),
    "learned positions": dict(decoder_learned_pos=True, layernorm_embedding=True),
    "no positions": dict(no_token_positional_embeddings=True),
}


def parents_of(draw, n_rows, n_tokens):
    """Any trees, or several for a row, whose tokens come after the ones that they follow."""
    return torch.tensor(
        [[draw(st.integers(-1, token - 1)) for token in range(n_tokens)] for _ in range(n_rows)]
    )


def path_to(parents, token):
    path = []
    while token >= 0:
        path.insert(0, token)
        token = int(parents[token])
    return path


class Rows:
    """Rows of different lengths, of which it is known what they have committed."""

    def __init__(self, model, lengths, precision="model"):
        self.batch = tiny.random_batch(TASK, SOURCES, seed=5)
        self.model = model
        self.session = DecoderSession(model, precision)
        self.session.reset(40)
        self.session.add(self.batch["net_input"])
        words = random_targets(TASK, len(SOURCES), 6, seed=1)
        self.committed = [row[:n].tolist() for row, n in zip(words, lengths)]
        self.session.step(words)
        self.session.commit(torch.tensor(lengths))

    def expected(self, row, tokens):
        """The logits after these tokens ``[V]``, by a forward pass without any cache."""
        rows = [[2]] * len(SOURCES)
        rows[row] = self.committed[row] + tokens
        longest = max(map(len, rows))
        padded = torch.tensor([own + [1] * (longest - len(own)) for own in rows])
        return full_logits(self.model, self.batch, padded)[row, len(rows[row]) - 1]

    def check(self, tokens, parents, tolerance):
        logits = self.session.project(self.session.step(tokens, TokenTree(parents)))[..., 0, :]
        for row in range(len(SOURCES)):
            for token in range(tokens.size(1)):
                path = path_to(parents[row], token)
                expected = self.expected(row, tokens[row, path].tolist())
                assert (logits[row, token] - expected).abs().max() < tolerance

    def commit(self, tokens, paths):
        longest = max(map(len, paths))
        padded = [path + [0] * (longest - len(path)) for path in paths]
        n_kept = torch.tensor([len(path) for path in paths])
        self.session.commit(n_kept, torch.tensor(padded).view(len(paths), longest))
        for own, row, path in zip(self.committed, tokens, paths):
            own += row[path].tolist()


@pytest.mark.parametrize("kind", ["fp32", "fp32, nothing compiled", "fp64"])
@pytest.mark.parametrize("options", ARCHITECTURES.values(), ids=ARCHITECTURES)
def test_every_path_has_the_full_forward_logits(options, kind, true_double, request):
    dtype = torch.float64 if kind == "fp64" else torch.float32
    if kind == "fp32, nothing compiled":
        request.getfixturevalue("nothing_compiled")
    model = tiny.stir(tiny.build_model(TASK, dtype=dtype, **options))
    n_rows = len(SOURCES)

    @settings(max_examples=6, deadline=None)
    @given(st.data())
    def check(data):
        alike = data.draw(st.booleans())
        lengths = [data.draw(st.integers(0, 5)) for _ in range(n_rows)]
        rows = Rows(model, lengths[:1] * n_rows if alike else lengths)
        for seed in (1, 2):
            n_tokens = data.draw(st.integers(1, 6))
            tokens = random_targets(TASK, n_rows, n_tokens, seed)
            parents = parents_of(data.draw, n_rows, n_tokens)
            rows.check(tokens, parents, TOLERANCE[dtype])
            last = [data.draw(st.integers(-1, n_tokens - 1)) for _ in range(n_rows)]
            rows.commit(tokens, [path_to(own, token) for own, token in zip(parents, last)])
        # What was kept of the trees is there for tokens in a row, too.
        tokens = random_targets(TASK, n_rows, 2, seed=3)
        logits = rows.session.project(rows.session.step(tokens))[..., 0, :]
        for row in range(n_rows):
            expected = rows.expected(row, tokens[row].tolist())
            assert (logits[row, 1] - expected).abs().max() < TOLERANCE[dtype]

    check()


@pytest.mark.skipif(library() is None, reason=skips.COMPILER)
@pytest.mark.parametrize(
    "precision, instructions", [("fp32", None), ("bf16", "has_bf16"), ("int8", "has_int8")]
)
def test_a_token_is_computed_as_in_steps_of_one(precision, instructions):
    """Bit for bit: so what is rounded to 8 bits is the same, and greedy's tokens are."""
    if instructions and not getattr(library(), instructions):
        pytest.skip(skips.BF16 if precision == "bf16" else skips.VNNI)
    model = tiny.stir(tiny.build_model(TASK))
    n_rows = len(SOURCES)
    one_by_one, rows = (Rows(model, [4, 4, 2, 3], precision) for _ in range(2))
    tokens = random_targets(TASK, n_rows, 7, seed=2)
    parents = torch.tensor([[-1, 0, 0, 2, 1, 3, 5]] * n_rows)
    features = rows.session.step(tokens, TokenTree(parents))
    path = [0, 2, 3, 5, 6]
    for token in path:
        alone = one_by_one.session.step(tokens[:, token, None])
        one_by_one.session.commit(1)
        assert torch.equal(features[:, token], alone[:, 0])
    rows.session.commit(len(path), torch.tensor([path] * n_rows))
    following = random_targets(TASK, n_rows, 1, seed=4)
    assert torch.equal(rows.session.step(following), one_by_one.session.step(following))


def test_paused_rows_keep_what_they_have():
    model = tiny.stir(tiny.build_model(TASK))
    rows = Rows(model, [4, 1, 2, 3])
    rows.session.pause(2)
    tokens = random_targets(TASK, 2, 3, seed=2)
    parents = torch.tensor([[-1, 0, 0]] * 2)
    rows.session.step(tokens, TokenTree(parents))
    rows.session.commit(torch.tensor([2, 1]), torch.tensor([[0, 2], [0, 0]]))
    rows.committed[2] += tokens[0, [0, 2]].tolist()
    rows.committed[3] += tokens[1, :1].tolist()
    rows.session.pause(0)
    tokens = random_targets(TASK, 4, 1, seed=3)
    logits = rows.session.project(rows.session.step(tokens))[:, 0, 0]
    for row in range(4):
        expected = rows.expected(row, tokens[row].tolist())
        assert (logits[row] - expected).abs().max() < 1e-5


@pytest.mark.skipif(library() is None, reason=skips.COMPILER)
@pytest.mark.parametrize(
    "parents", [[-1, 1, 0], [-1, 2, 0], [-2, 0, 0], [0, 0, 0], list(range(-1, 64))]
)
def test_what_is_no_tree_is_refused(parents):
    rows = Rows(tiny.stir(tiny.build_model(TASK)), [1, 1, 1, 1])
    parents = torch.tensor([parents] * len(SOURCES))
    with pytest.raises(ValueError, match="do not follow earlier ones, or too many in a row"):
        rows.session.step(torch.full_like(parents, 5), TokenTree(parents))


def test_who_sees_whom():
    tree = TokenTree(torch.tensor([[-1, 0, 0, 1], [-1, 0, 1, -1]]))
    assert tree.sees.int().tolist() == [
        [[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 1]],
        [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 1]],
    ]
    assert tree.depths.tolist() == [[0, 1, 1, 2], [0, 1, 2, 0]]
    mask = tree_mask(torch.tensor([0, 2]), tree.sees, 6, torch.float32)
    assert mask.shape == (2, 1, 4, 6)
    assert mask[0, 0, 3].eq(0).tolist() == [True, True, False, True, False, False]
    assert mask[1, 0, 2].eq(0).tolist() == [True, True, True, True, True, False]
