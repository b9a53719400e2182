"""Functions that run without gradients."""

import pytest
import torch

from fairseq_fastdec.engine.network.gradients import without_gradients


@without_gradients
def doubled(x, fails=False):
    """Twice x."""
    if fails:
        raise ValueError("as asked")
    return 2 * x


def test_results_have_no_gradient_whoever_calls():
    x = torch.ones(2, requires_grad=True)
    assert not doubled(x).requires_grad and torch.is_grad_enabled()
    with torch.no_grad():
        assert not doubled(x).requires_grad and not torch.is_grad_enabled()
    assert (2 * x).requires_grad
    assert doubled.__doc__ == "Twice x."


def test_errors_leave_gradients_as_they_were():
    for enabled in (True, False):
        with torch.set_grad_enabled(enabled), pytest.raises(ValueError, match="as asked"):
            doubled(torch.ones(1), fails=True)
        with torch.set_grad_enabled(enabled):
            assert torch.is_grad_enabled() == enabled
