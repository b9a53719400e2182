"""What is known of a model outlives its generators."""

from torch import nn

from fairseq_fastdec.generators.single.experience import FIRST, Experience, experience_of
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
    assert (heads.rates.rates, drafts.rates.rates) == (0.5, 0.1)
    assert not heads.trial.is_on(FIRST) and heads.trial.is_on(FIRST + 1)
