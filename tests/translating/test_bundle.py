"""A bundle gives the translations of the checkpoint that it was made of, without torch."""

import copy
import math
import subprocess
import sys
import threading

import numpy as np
import pytest

import fairseq_fastdec
from examples.common.en_de import MODEL
from fairseq_fastdec import SentenceError, Translation
from fairseq_fastdec.tools.export import export
from fairseq_fastdec.translating import bundle_file
from fairseq_fastdec.translating.bundle import OPTIONS, BundleTranslator
from fairseq_fastdec.translating.bundle_file import read, write
from tests.support.trained_models import stock_model  # noqa: F401  (registers architectures)

LINES = [
    "Click the Save button.",
    "Don't close the document!",
    "",
    "The quick brown fox, e.g. in “LibreOffice Writer”, jumps over 1,000 lazy dogs.",
    "x",
    "Format - Cells - Numbers",
]
METHODS = {
    "greedy": {},
    "int8": {"engine_precision": "int8"},
    "bf16": {"engine_precision": "bf16"},
    "blockwise": {"decoding": "blockwise"},
    "blockwise int8": {"decoding": "blockwise", "engine_precision": "int8"},
    "approximate": {"decoding": "blockwise", "acceptance": "topk", "acceptance_topk": 3},
    "lookahead": {"decoding": "lookahead"},
    "auto": {"decoding": "auto"},
    "jacobi": {"decoding": "jacobi"},
    "beam": {"beam": 5, "lenpen": 0.6, "max_len_b": 30},
    "variable_beam": {"decoding": "variable_beam", "beam": 5},
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A translator of the checkpoint, and one of its bundle, with some options."""
    known = {}

    def made(name="greedy"):
        if name not in known:
            translator = fairseq_fastdec.load(MODEL, **METHODS[name])
            path = tmp_path_factory.mktemp("bundles") / "model.fastdec"
            export(translator, path)
            known[name] = translator, fairseq_fastdec.load(path), path
        return known[name]

    return made


@pytest.mark.parametrize("name", METHODS)
def test_translations_are_those_of_the_checkpoint(pair, name):
    translator, bundle, _ = pair(name)
    assert isinstance(bundle, BundleTranslator)
    assert bundle.translate(LINES) == [translator.translate(line) for line in LINES]
    alone = [translator.translate(line, details=True) for line in LINES]
    assert bundle.translate(LINES, details=True) == alone
    assert bundle.translate(LINES[0]) == translator.translate(LINES[0])


def as_first_version(kind, given):
    """A search in the names of the first version, of which some had trees of proposals."""
    given, old = dict(given), {}
    if kind == "beam":
        old = {"threshold": given.pop("prune_threshold", math.inf), "width": given.pop("beam")}
        old["n_per_entry"] = given.pop("max_candidates")
        old["lets_wait"] = given.pop("finalize", "fairseq") == "paper"
        for name in ("match_source_len", "counts_source_end", "cumulative_diversity"):
            assert not given.pop(name, False)
        for name in ("diverse_beam_groups", "diverse_beam_strength"):
            assert not given.pop(name, 0)
        assert not given
        return "BeamOptions", old
    if kind == "blocks":
        acceptance = {"kind": given.pop("acceptance", "exact")}
        acceptance["min_block"] = given.pop("min_block_size", 1)
        if acceptance["kind"] == "topk":
            acceptance["n_best"] = given.pop("acceptance_topk")
        old = {"acceptance": acceptance, "n_heads": given.pop("decoding_block_size", 1)}
        old["confidence"] = given.pop("proposal_confidence", 0.0)
        old["by_time"] = given.pop("by_time", False)
        old["window"] = given.pop("lookahead_window", 1)
        old.update(records_blocks=True, n_in_tree=15)
    else:
        old = {"block_size": given.pop("jacobi_block_size")}
        old["ends_inside_blocks"] = given.pop("ends_within_block")
        old["waits_behind_eos"] = given.pop("waits_behind_eos")
        old.update(n_heads=1, records_blocks=True)
        given.pop("parallel_len_a", None), given.pop("parallel_len_b", None)
    drafts = {"kind": given.pop("guess", "pad")}
    drafts["replaces_answers"] = given.pop("replaces_answers", False)
    if drafts["kind"] == "ngram":
        drafts["order"] = given.pop("ngram_order")
        drafts["across_sentences"] = given.pop("ngram_pool") == "run"
    assert not given
    old["drafts"] = drafts
    return {"blocks": "BlockOptions", "jacobi": "JacobiOptions"}[kind], old


@pytest.mark.parametrize("name", METHODS)
def test_bundles_of_the_first_version(pair, tmp_path, name, monkeypatch):
    _, bundle, path = pair(name)
    content = read(path)
    methods = content["methods"]
    content["methods"] = {own: as_first_version(*search) for own, search in methods.items()}
    monkeypatch.setattr(bundle_file, "VERSION", 1)
    write(tmp_path / "old.fastdec", content)
    assert (tmp_path / "old.fastdec").read_bytes()[8] == 1 != path.read_bytes()[8]
    old = fairseq_fastdec.load(tmp_path / "old.fastdec")
    assert old.translate(LINES, details=True) == bundle.translate(LINES, details=True)
    for options in (dict(decoding="greedy"), dict(decoding="beam", beam=3, nbest=2)):
        assert old.translate(LINES[0], **options) == bundle.translate(LINES[0], **options)


def test_options_of_a_call(pair):
    translator, bundle, _ = pair()
    for options in (
        {"beam": 4},
        {"beam": 4, "nbest": 3},
        {"decoding": "beam", "beam": 3, "unnormalized": True},
        {"decoding": "greedy", "max_len_a": 0.5, "max_len_b": 2},
        {"beam": 3, "lenpen": 2.0, "min_len": 5, "no_repeat_ngram_size": 2, "unkpen": 1.0},
        {"beam": 2, "temperature": 2.0},
        {"min_len": -(2**70), "no_repeat_ngram_size": 2**70},
    ):
        assert bundle.translate(LINES, **options) == [
            translator.translate(line, **options) for line in LINES
        ]


def test_a_beam_size_keeps_a_method_with_beams(pair):
    translator, bundle, _ = pair("variable_beam")
    found = bundle.translate(LINES, beam=5, details=True)
    assert found == [translator.translate(line, beam=5, details=True) for line in LINES]
    assert found == bundle.translate(LINES, details=True)


def test_a_beam_size_of_one_replaces_beam_by_greedy(pair):
    translator, bundle, _ = pair("beam")
    call = dict(beam=1, details=True, drafts="x")
    assert bundle.translate(LINES[0], **call) == translator.translate(LINES[0], **call)


def test_ensembles(tmp_path, corpus, baseline):
    translator = fairseq_fastdec.load([baseline, baseline], corpus, beam=3)
    export(translator, tmp_path / "two.fastdec")
    bundle = fairseq_fastdec.load(tmp_path / "two.fastdec")
    assert len(bundle.models) == 2
    assert bundle.translate("a b c") == translator.translate("a b c")
    # The arrays of both are the same, and are written once.
    export(fairseq_fastdec.load(baseline, corpus, beam=3), tmp_path / "one.fastdec")
    assert (tmp_path / "two.fastdec").stat().st_size < 2.1 * (
        tmp_path / "one.fastdec"
    ).stat().st_size


def test_languages_and_limits(pair):
    _, bundle, _ = pair()
    assert (bundle.source_lang, bundle.target_lang) == ("en", "de")
    with pytest.raises(SentenceError, match="too long: 3001 tokens including EOS"):
        bundle.translate("x " * 3000)
    found = bundle.translate(["x", "x " * 3000], details=True)
    assert found[0].text and found[1].text is None and "too long" in found[1].error
    with pytest.raises(SentenceError) as raised:
        bundle.translate(["x", "x " * 3000, "x"])
    assert raised.value.translations == [found[0].text, None, found[0].text]
    assert list(raised.value.errors) == [1]
    assert bundle.translate([]) == [] and bundle.translate("") == ""
    assert bundle.translate("", details=True) == Translation("")


@pytest.mark.parametrize(
    "options, message",
    [
        (
            {"decodign": "beam"},
            f"decodign: not an option of a bundle; choose from {', '.join(OPTIONS)}",
        ),
        ({"decoding": "jacobi"}, "the bundle has greedy, beam; export it with --decoding jacobi"),
        ({"decoding": "greedy", "beam": 4}, "keeps one hypothesis; use decoding beam"),
        ({"beam": 2, "nbest": 3}, "nbest 3: must be at most beam 2"),
        ({"beam": 0}, "beam 0: must be a whole number of at least 1"),
        ({"beam": True}, "beam True: must be"),
        ({"lenpen": float("nan")}, "lenpen nan: must be"),
        ({"temperature": 0}, "temperature 0: must be"),
        ({"no_repeat_ngram_size": 1}, "no-repeat-ngram-size 1: would forbid"),
        ({"lenpen": [1]}, "lenpen .*: must be"),
        ({"max_len_b": 3, "min_len": 9}, "--min-len 9: larger than the longest output"),
        ({"max_len_b": -3, "min_len": -5}, "--min-len 0: larger than .* -3 .*--max-len-b -3"),
    ],
)
def test_options_that_cannot_be_honoured(pair, options, message):
    _, bundle, path = pair()
    with pytest.raises(ValueError, match=message):
        bundle.translate("x", **options)
    if "max_len_b" not in options:
        with pytest.raises(ValueError, match=message):
            fairseq_fastdec.load(path, **options)


def test_norms_of_another_size_are_refused(pair):
    """The checksum of a file does not tell who wrote it."""
    _, _, path = pair()
    content = read(path)
    for name in ("self_norm", "final_norm"):
        changed = copy.deepcopy(content)
        _, norms = changed["models"][0].arguments["decoder"].arguments["layers"][0]
        norms[name].arguments.update(
            weight=np.ones(1, dtype=np.float32), bias=np.ones(1, dtype=np.float32)
        )
        with pytest.raises(ValueError, match=f"{name}: the norm has another size"):
            BundleTranslator(changed, {})
        del norms[name]
        with pytest.raises(ValueError, match=f"{name}: missing"):
            BundleTranslator(changed, {})


def test_options_of_load_hold_for_all_calls(pair):
    translator, _, path = pair()
    bundle = fairseq_fastdec.load(path, beam=4, nbest=2)
    assert bundle.translate(LINES[0]) == translator.translate(LINES[0], beam=4, nbest=2)
    assert bundle.translate(LINES[0], nbest=1) == translator.translate(LINES[0], beam=4)


def test_threads(pair):
    """Mixed methods, from several threads: each gets its own translations."""
    _, bundle, _ = pair("blockwise")
    options = [{}, {"beam": 4}, {"decoding": "greedy"}, {"beam": 3, "nbest": 2}]
    expected = [bundle.translate(LINES, **own) for own in options]
    wrong = []

    def run(number):
        for _ in range(5):
            if bundle.translate(LINES, **options[number % 4]) != expected[number % 4]:
                wrong.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [] and bundle.queued() == (0, 0)


def test_neither_torch_nor_fairseq_is_imported(pair):
    _, bundle, path = pair("int8")
    code = (
        "import sys, fairseq_fastdec\n"
        f"bundle = fairseq_fastdec.load({str(path)!r})\n"
        f"print(bundle.translate({LINES[0]!r}, details=True, alignment=True).text)\n"
        "print([name for name in ('torch', 'fairseq', 'omegaconf') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines() == [bundle.translate(LINES[0]), "[]"], done.stderr


def test_without_compiled_code(pair, request):
    _, _, path = pair()
    request.getfixturevalue("nothing_compiled")
    with pytest.raises(OSError, match="bundles need compiled code; install a C"):
        fairseq_fastdec.load(path)
