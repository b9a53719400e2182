"""The loss against fairseq's function on torch's log-softmax."""

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss

from fairseq_fastdec.criterions.smoothed_cross_entropy import smoothed_cross_entropy

PAD = 1


def drawn(dtype=torch.float64, n_words=11):
    generator = torch.Generator().manual_seed(3)
    logits = 4 * torch.randn(7, n_words, generator=generator, dtype=torch.float64)
    target = torch.randint(n_words, (7,), generator=generator)
    target[[2, 6]] = PAD
    return logits.to(dtype).requires_grad_(), target


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_it_is_fairseqs(dtype, epsilon):
    results = []
    for ours in (True, False):
        logits, target = drawn(dtype)
        if ours:
            loss, nll = smoothed_cross_entropy(logits, target, epsilon, PAD)
            assert not nll.requires_grad
        else:
            exact = torch.promote_types(dtype, torch.float32)
            log_probs = logits.log_softmax(-1, dtype=exact)
            loss, nll = label_smoothed_nll_loss(log_probs, target, epsilon, ignore_index=PAD)
        (3 * loss).backward()
        results.append((loss.detach(), nll.detach(), logits.grad))
    torch.testing.assert_close(*results)


def test_its_gradient_is_that_of_its_value():
    logits, target = drawn()
    torch.autograd.gradcheck(
        lambda own: smoothed_cross_entropy(own, target, 0.2, PAD)[0], (logits,)
    )


def test_of_no_position_and_of_padding_alone():
    logits, target = drawn()
    for rows in (slice(0, 0), slice(2, 3)):
        loss, nll = smoothed_cross_entropy(logits[rows], target[rows], 0.1, PAD)
        assert loss == nll == 0
        loss.backward()
        assert not logits.grad.any()
