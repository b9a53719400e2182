"""The tests mirror the package and the benchmarks: those of ``a/b.py`` are ``tests/a/test_b.py``.

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
    "benchmarks/compare/__main__.py": "benchmarks/compare/test_command.py",
    "benchmarks/gpu/gpu_tests.py": "scripts/test_measure_gpu.py",
    "benchmarks/gpu/measuring.py": "scripts/test_measure_gpu.py",
    "benchmarks/gpu/models.py": "scripts/test_measure_gpu.py",
    "benchmarks/gpu/papers.py": "scripts/test_measure_gpu.py",
    "benchmarks/gpu/process.py": "scripts/test_measure_gpu.py",
    "benchmarks/gpu/results.py": "scripts/test_measure_gpu.py",
    "benchmarks/gpu/rows.py": "scripts/test_measure_gpu.py",
    "benchmarks/gpu/session.py": "scripts/test_measure_gpu.py",
    "benchmarks/imported/__main__.py": "benchmarks/imported/test_command.py",
    "benchmarks/imported/engines.py": "benchmarks/imported/test_command.py",
    "benchmarks/imported/models.py": "benchmarks/imported/test_command.py",
    "benchmarks/launches/__main__.py": "benchmarks/launches/test_command.py",
    "benchmarks/profile_engine/__main__.py": "benchmarks/profile_engine/test_command.py",
    "data/draft_lines.py": "decoding/test_draft_file.py",
    "checkpoints/scoring.py": "translating/test_scoring.py",
    "checkpoints/task_start.py": "translating/test_translator.py",
    "checkpoints/whole_batches.py": "checkpoints/test_translator.py",
    "decoding/building.py": "decoding/test_build.py",
    "decoding/generator.py": "decoding/test_against_fairseq.py",
    "decoding/hypothesis.py": "decoding/test_against_fairseq.py",
    "decoding/methods/beam_batch.py": "decoding/methods/test_beam.py",
    "decoding/methods/beams.py": "decoding/methods/test_beam.py",
    "decoding/methods/fixed_point.py": "decoding/methods/test_jacobi.py",
    "decoding/methods/generator.py": "decoding/methods/test_methods.py",
    "decoding/methods/gs_jacobi.py": "decoding/methods/test_jacobi.py",
    "decoding/methods/hybrid_jacobi.py": "decoding/methods/test_jacobi.py",
    "decoding/methods/lookahead.py": "decoding/test_lookahead.py",
    "decoding/methods/proposals.py": "decoding/methods/test_blockwise.py",
    "decoding/methods/variable_beam.py": "decoding/methods/test_beam.py",
    "decoding/option_groups.py": "fairseq_patches/test_help.py",
    "decoding/options.py": "decoding/test_build.py",
    "engine/kernels/parts.py": "translating/test_bundle_file.py",
    "importing/marian_options.py": "importing/test_marian.py",
    "importing/marian_parameters.py": "importing/test_marian.py",
    "packing/models.py": "packing/test_prepared_model.py",
    "packing/heads.py": "decoding/test_compiled_outputs.py",
    "packing/own_weights.py": "packing/test_release.py",
    "packing/support.py": "decoding/test_architectures.py",
    "packing/weights.py": "packing/test_precision.py",
    "engine/rules.py": "decoding/test_constraints.py",
    "engine/searches.py": "translating/test_translator.py",
    "processes/known_modules.py": "fairseq_patches/test_lean_imports.py",
    "processes/lazy.py": "fairseq_patches/test_lean_imports.py",
    "importing/to_huggingface_parameters.py": "importing/test_to_huggingface.py",
    "models/block_heads.py": "models/test_blockwise_transformer.py",
    "translating/opening.py": "translating/test_bundle.py",
    "plugin.py": "fairseq_patches/test_lean_imports.py",
    "translating/results.py": "checkpoints/test_translator.py",
    "translating/bundle_options.py": "translating/test_bundle.py",
    "translating/errors.py": "serving/test_app.py",
    "packing/stock_decoders.py": "network/test_support.py",
    "tasks/token_orders.py": "tasks/test_translation_double_token.py",
    "tools/distillation/dataset.py": "tools/distillation/test_command.py",
    "tools/distillation/teacher.py": "tools/distillation/test_command.py",
    "tools/shortlisting/sentences.py": "tools/shortlisting/test_model1.py",
}
FILES = sorted(
    path.relative_to(folder).as_posix()
    for folder, within in ((PACKAGE, PACKAGE), (TESTS.parent, TESTS.parent / "benchmarks"))
    for path in within.rglob("*.py")
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
