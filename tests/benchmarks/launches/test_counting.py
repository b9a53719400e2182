"""What counts as an operator, a read and an allocation."""

import torch

from benchmarks.launches.counting import Counter, Counts


class Model:
    def step(self):
        pass


def counted(run):
    """The counts of a step that runs this."""
    counter, model = Counter(), Model()
    with counter.counting(Model, "step"):
        model.step()
        run(torch.arange(6.0).view(2, 3))
    assert len(counter.steps) == 2
    return counter.now


def test_operators_compute_and_views_do_not():
    # arange, add, mul_; only the first two allocate.
    assert counted(lambda x: (x.t()[0] + 1).mul_(2)) == Counts(3, 0, 2)


def test_what_python_reads():
    # arange; gt, any, and their value.
    assert counted(lambda x: bool((x > 2).any())) == Counts(3, 1, 3)
    assert counted(lambda x: x.tolist()).reads == 1
    assert counted(lambda x: x.cpu()).reads == 1
    assert counted(lambda x: x.nonzero()).reads == 1
    assert counted(lambda x: x[x > 2]).reads == 1
    assert counted(lambda x: x[torch.tensor([0, 1])]).reads == 0


def test_the_method_is_restored():
    original = Model.step
    counted(lambda x: x)
    assert Model.step is original
