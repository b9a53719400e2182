"""The two rules for ended candidates, one sentence each, worked out by hand."""

import math

import numpy as np
import pytest

from fairseq_fastdec.generators.beams.finalization import FINALIZATIONS

NOTHING = -math.inf


def judge(rule, candidates, width, threshold=math.inf, n_final=0, best_final=NOTHING):
    """Each candidate's fate; ``"-1.0 $"`` has ended."""
    scores = np.array([[float(candidate.split()[0]) for candidate in candidates]], np.float32)
    ended = np.array([["$" in candidate for candidate in candidates]])
    finals = (np.array([n_final]), np.array([best_final], np.float32))
    verdict = FINALIZATIONS[rule].judge(scores, ended, *finals, width, threshold)
    assert not (verdict.final & verdict.active | verdict.active & verdict.waiting).any()
    fates = []
    for flags in zip(*(fate[0].tolist() for fate in verdict)):
        fates.append(next((name for name, flag in zip("faw", flags) if flag), "-"))
    return "".join(fates)


@pytest.mark.parametrize(
    "candidates, options, fates",
    [
        (["-1", "-2 $", "-3", "-4"], dict(width=2), "afa-"),
        (["-1", "-2", "-3 $", "-4"], dict(width=2), "aa--"),
        (["-1 $", "-2 $", "-3", "-4"], dict(width=2, n_final=1), "f-aa"),
        (["-1", "-2 $", "-3", "-4"], dict(width=2, threshold=0.5), "a---"),
        (["-1", "-2 $", "-3", "-4"], dict(width=2, threshold=2.0), "afa-"),
        (["-1", "-2 $", "-3"], dict(width=2, threshold=1.0, best_final=-0.5), "a--"),
        (["-1", "-2 $", "-2"], dict(width=2, threshold=1.0), "afa"),  # no worse than allowed
        (["-1", "-inf $", "-inf"], dict(width=2), "a--"),
    ],
)
def test_fairseqs_rule(candidates, options, fates):
    assert judge("fairseq", candidates, **options) == fates


@pytest.mark.parametrize(
    "candidates, options, fates",
    [
        (["-1", "-2 $", "-3"], dict(width=3), "awa"),
        (["-1 $", "-2 $", "-3", "-4 $"], dict(width=4), "ffaw"),
        (["-1", "-2", "-3 $"], dict(width=2), "aa-"),  # fell off the beam
        (["-1 $", "-2 $", "-3 $"], dict(width=2), "ff-"),
        (["-1 $", "-2", "-3"], dict(width=2), "fa-"),
        (["-1", "-2 $", "-3"], dict(width=2, n_final=1), "a--"),
        (["-1 $", "-2", "-3", "-4"], dict(width=4, n_final=1), "faa-"),  # 2 of 4 are final
        (["-1 $", "-2 $", "-3"], dict(width=2, n_final=1), "f--"),
        (["-1", "-2", "-2.5 $"], dict(width=3, threshold=1.0), "aa-"),
        (["-1", "-2", "-3"], dict(width=3, threshold=1.0, best_final=-0.5), "a--"),
        (["-1 $", "-2", "-3"], dict(width=3, threshold=1.5), "fa-"),
        (["-inf", "-inf $"], dict(width=2), "--"),
        (["-1 $", "-inf $", "-inf"], dict(width=3), "f--"),
    ],
)
def test_the_papers_rule(candidates, options, fates):
    assert judge("paper", candidates, **options) == fates


def test_what_the_rules_ask_of_a_search():
    """fairseq's sees twice the beam, as none that has ended waits; the paper's, one beam."""
    fairseqs, papers = FINALIZATIONS["fairseq"], FINALIZATIONS["paper"]
    assert (fairseqs.candidates_per_entry, fairseqs.lets_wait) == (2, False)
    assert (papers.candidates_per_entry, papers.lets_wait) == (1, True)
