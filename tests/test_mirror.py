"""The tests mirror the package: who reads ``a/b.py`` finds its tests in ``tests/a/test_b.py``.

What tests share is in ``tests/support``: no test file stands on another one.
"""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
PACKAGE = TESTS.parent / "fairseq_fastdec"

# Files without a test file of their own, and the one that tests them instead: what they are part of
# is tested as a whole there.
ELSEWHERE = {
    "__main__.py": "test_commands.py",
    "data/sentence_range.py": "tools/test_corpus.py",
    "decoding/methods/beam_batch.py": "decoding/methods/test_beam.py",
    "decoding/methods/beams.py": "decoding/methods/test_beam.py",
    "decoding/methods/fixed_point.py": "decoding/methods/test_jacobi.py",
    "decoding/methods/generator.py": "decoding/methods/test_methods.py",
    "decoding/methods/gs_jacobi.py": "decoding/methods/test_jacobi.py",
    "decoding/methods/hybrid_jacobi.py": "decoding/methods/test_jacobi.py",
    "decoding/methods/lookahead.py": "decoding/methods/test_jacobi.py",
    "decoding/methods/pairs.py": "decoding/methods/test_double_token.py",
    "decoding/methods/proposals.py": "decoding/methods/test_blockwise.py",
    "decoding/methods/variable_beam.py": "decoding/methods/test_beam.py",
    "engine/cuda_graphs/static_step.py": "engine/cuda_graphs/test_graphs.py",
    "engine/kernels/kept_product.py": "engine/kernels/test_packed.py",
    "engine/kernels/problems.py": "engine/kernels/test_compiled_checks.py",
    "engine/kernels/repeats.py": "generators/test_repeated_ngrams.py",
    "engine/kernels/search.py": "generators/single/test_compiled_search.py",
    "engine/kernels/structures.py": "engine/kernels/test_compiled_checks.py",
    "engine/kernels/scratch.py": "engine/kernels/test_best_token.py",
    "data/integer_symbols.py": "generators/blockwise/test_acceptance.py",
    "engine/models.py": "generators/single/test_compiled_search.py",
    "engine/network/compiled_decoder.py": "engine/kernels/test_transformer.py",
    "engine/network/compiled_encoder.py": "engine/network/test_encoder.py",
    "engine/network/compiled_network.py": "engine/kernels/test_transformer.py",
    "engine/network/decoder_rehearsal.py": "engine/network/test_rehearsal.py",
    "engine/network/drafter.py": "engine/kernels/test_drafts.py",
    "engine/network/encoder_weights.py": "engine/network/test_encoder.py",
    "engine/network/forward.py": "engine/session/test_decoder_session.py",
    "engine/network/heads.py": "models/test_blockwise_transformer.py",
    "engine/network/own_weights.py": "engine/network/test_release.py",
    "engine/network/positions.py": "engine/session/test_decoder_session.py",
    "engine/network/source_grid.py": "engine/session/test_decoder_session.py",
    "engine/network/staleness.py": "engine/network/test_prepared_model.py",
    "engine/network/support.py": "engine/session/test_decoder_session.py",
    "engine/network/weights.py": "engine/network/test_prepared_model.py",
    "engine/session/caches.py": "engine/session/test_decoder_session.py",
    "engine/session/decoder_network.py": "engine/session/test_step_runners.py",
    "engine/session/ensemble.py": "generators/test_against_fairseq.py",
    "engine/session/direct_steps.py": "generators/single/test_compiled_blocks.py",
    "engine/session/fairseq_session.py": "engine/session/test_incremental.py",
    "engine/session/features.py": "generators/test_against_fairseq.py",
    "engine/session/output_layer.py": "engine/session/test_shortlist.py",
    "engine/session/source_groups.py": "engine/session/test_step_runners.py",
    "engine/session/scores.py": "generators/beams/test_candidates.py",
    "stock_decoders.py": "network/test_support.py",
    "generators/base.py": "generators/test_against_fairseq.py",
    "generators/beams/focus.py": "generators/beams/test_survival.py",
    "generators/beams/request.py": "generators/beams/test_generator.py",
    "generators/beams/search.py": "generators/beams/test_generator.py",
    "generators/beams/streaming.py": "generators/beams/test_generator.py",
    "generators/double_token/pair_beams.py": "generators/double_token/test_generator.py",
    "generators/expansion.py": "generators/beams/test_generator.py",
    "generators/hypothesis.py": "generators/test_against_fairseq.py",
    "generators/option_groups.py": "test_help.py",
    "generators/options.py": "generators/test_build.py",
    "generators/single/blocks.py": "generators/single/test_compiled_blocks.py",
    "generators/single/choose_blocks.py": "generators/single/test_compiled_blocks.py",
    "generators/single/generator.py": "generators/test_against_fairseq.py",
    "generators/single/greedy.py": "generators/test_against_fairseq.py",
    "generators/single/tensor_blocks.py": "generators/single/test_compiled_blocks.py",
    "models/block_heads.py": "models/test_blockwise_transformer.py",
    "tasks/token_orders.py": "tasks/test_translation_double_token.py",
    "tools/distillation/dataset.py": "tools/distillation/test_command.py",
    "tools/distillation/teacher.py": "tools/distillation/test_command.py",
    "tools/shortlisting/sentences.py": "tools/shortlisting/test_model1.py",
}
FILES = sorted(
    path.relative_to(PACKAGE).as_posix()
    for path in PACKAGE.rglob("*.py")
    if path.name != "__init__.py"
)


def own_test(file):
    """Where the tests of a file belong."""
    path = TESTS / file
    return path.with_name(f"test_{path.name}")


@pytest.mark.parametrize("file", FILES)
def test_every_file_has_a_test_file(file):
    if file in ELSEWHERE:
        assert not own_test(file).exists(), f"{file}: has one; take it from the list ELSEWHERE"
        assert (TESTS / ELSEWHERE[file]).is_file(), f"{file}: {ELSEWHERE[file]} is gone"
    else:
        assert own_test(file).is_file(), (
            f"{file}: has no tests/{own_test(file).relative_to(TESTS)}; write one, or say in the "
            "list ELSEWHERE which file tests it"
        )


def test_no_file_of_the_list_is_gone():
    assert set(ELSEWHERE) <= set(FILES)


def imported(path):
    """The modules that a file imports; each name that it takes from one counts, too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from (f"{module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize(
    "path", sorted(TESTS.rglob("*.py")), ids=lambda path: str(path.relative_to(TESTS))
)
def test_what_tests_share_is_in_support(path):
    of_tests = [name for name in imported(path) if name.startswith((".", "tests."))]
    elsewhere = [name for name in of_tests if not name.startswith("tests.support")]
    assert elsewhere == [], "move what it needs to tests/support"
