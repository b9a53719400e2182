"""What is known of a model outlives its generators."""

import pytest
from torch import nn

from fairseq_fastdec.generators.single.experience import (
    FIRST,
    Experience,
    SourceExperience,
    experience_of,
)
from fairseq_fastdec.generators.single.invocation_costs import N_SAMPLES
from fairseq_fastdec.generators.single.pace import AcceptanceRates


def test_it_is_kept_with_the_model_and_apart():
    model, other = nn.Linear(1, 1), nn.Linear(1, 1)
    assert experience_of([model], "a") is experience_of([model], "a")
    assert experience_of([model], "a") is not experience_of([model], "b")
    assert experience_of([model], "a") is not experience_of([other], "a")
    assert experience_of([model], "a") is not experience_of([model, other], "a")


def test_each_source_has_its_own():
    experience = Experience()
    heads = experience.of_source("heads", lambda: AcceptanceRates([0.5]))
    drafts = experience.of_source("drafts", lambda: AcceptanceRates([0.1]))
    assert experience.of_source("heads", lambda: AcceptanceRates([0.9])) is heads
    assert (heads.rates.rates.item(), drafts.rates.rates.item()) == (0.5, 0.1)
    assert not heads.trial.is_on(FIRST) and heads.trial.is_on(FIRST + 1)


def test_a_head_that_was_never_asked_takes_its_share_of_the_time_of_others():
    known = SourceExperience(AcceptanceRates([0.5]))
    assert known.seconds(4, 1) == 0
    for _ in range(N_SAMPLES):
        known.costs[8].learn(1, 0.7)
    assert [known.seconds(n, 1) for n in (8, 4, 2)] == pytest.approx([0.7, 0.3, 0.1])
    for _ in range(N_SAMPLES):
        known.costs[4].learn(1, 0.5)
    assert [known.seconds(n, 1) for n in (8, 4, 2)] == pytest.approx([0.7, 0.5, 0.5 / 3])
