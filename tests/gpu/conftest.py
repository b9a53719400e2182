"""Where the checks run: on a CPU always, in torch; on a GPU if there is one."""

import pytest
import torch

from tests.support.placement import NEEDS_GPU


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=NEEDS_GPU)])
def device(request, nothing_compiled):
    return torch.device(request.param)
