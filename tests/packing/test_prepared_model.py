"""Weights are prepared once for a model and a precision, and follow the parameters."""

import copy
import gc
import pickle
import threading
import weakref

import pytest
import torch
from fairseq.models.transformer import TransformerModel

from fairseq_fastdec.packing import prepared_model
from fairseq_fastdec.packing.models import EngineModels, ProposalWays
from fairseq_fastdec.packing.precision import Precision
from fairseq_fastdec.packing.prepared_model import prepared
from tests.support import tiny
from tests.support.compiled import compiled
from tests.support.engine_scores import generator_of, scores_by, scores_of

pytestmark = compiled

TASK = tiny.task(20)


@pytest.fixture
def prepared_layers(monkeypatch):
    """The shapes of the layers that are prepared from now on."""
    shapes = []
    linear = Precision.linear

    def counted(self, weight, bias=None):
        shapes.append(tuple(weight.shape))
        return linear(self, weight, bias)

    monkeypatch.setattr(Precision, "linear", counted)
    return shapes


def logits(model, precision="model"):
    return scores_of(model, TASK, precision)


@pytest.mark.parametrize("precision", ["model", "int8"])
def test_a_second_generator_prepares_nothing(precision, prepared_layers):
    model = tiny.stir(tiny.build_model(TASK))
    first = logits(model, precision)
    assert prepared_layers
    prepared_layers.clear()
    assert torch.equal(logits(model, precision), first)
    assert prepared_layers == []


@pytest.mark.parametrize("precision", ["model", "int8"])
def test_the_second_translation_of_the_hub_prepares_nothing(
    corpus, baseline, precision, prepared_layers
):
    """fairseq's hub interface builds a generator in every call."""
    hub = TransformerModel.from_pretrained(
        str(baseline.parent), baseline.name, str(corpus), task="translation"
    )
    options = dict(decoding="greedy", engine_precision=precision, beam=1)
    first = hub.translate(["a b c"], **options)
    assert prepared_layers
    prepared_layers.clear()
    assert hub.translate(["a b c"], **options) == first
    assert prepared_layers == []


def test_precisions_do_not_mix(prepared_layers):
    model = tiny.stir(tiny.build_model(TASK))
    exact = logits(model)
    prepared_layers.clear()
    assert not torch.equal(logits(model, "int8"), exact)
    assert prepared_layers
    assert torch.equal(logits(model), exact)


def test_all_generators_follow_changed_parameters():
    """Those that come later do not hide a change from earlier ones."""
    model = tiny.stir(tiny.build_model(TASK))
    generators = [generator_of(model, TASK) for _ in range(2)]
    before = [scores_by(own, TASK) for own in generators]
    model.load_state_dict(tiny.stir(tiny.build_model(TASK, seed=3), seed=9).state_dict())
    expected = logits(model)
    assert not torch.equal(expected, before[0])
    assert all(torch.equal(scores_by(own, TASK), expected) for own in generators)


def test_weights_go_with_their_model():
    model = tiny.stir(tiny.build_model(TASK))
    logits(model)
    module = weakref.ref(model.decoder)
    weights = weakref.ref(prepared(model.decoder))
    n_known = len(prepared_model._PREPARED)
    del model
    gc.collect()
    assert module() is None and weights() is None
    assert len(prepared_model._PREPARED) < n_known


def sgd_step(model):
    """An optimizer's step that writes to ``parameter.data``, as fairseq's optimizers do."""

    class OnData(torch.optim.SGD):
        def step(self, closure=None):
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.data.add_(parameter.grad, alpha=-group["lr"])

    optimizer = OnData(model.parameters(), lr=0.5)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter).cumsum(0) / 50
    optimizer.step()


def scaled_in_place(model):
    with torch.no_grad():
        model.decoder.layers[1].fc1.weight.mul_(-2)


def copied_in_place(model):
    with torch.no_grad():
        model.encoder.layers[0].fc2.bias.copy_(torch.linspace(-2, 2, 32))


def new_parameter(model):
    weight = model.decoder.layers[0].encoder_attn.v_proj.weight
    model.decoder.layers[0].encoder_attn.v_proj.weight = torch.nn.Parameter(-3 * weight.detach())


def new_layer(model):
    other = tiny.stir(tiny.build_model(TASK, seed=3), seed=9)
    model.decoder.layers[1] = other.decoder.layers[1]


def state_of_one_layer(model):
    other = tiny.stir(tiny.build_model(TASK, seed=3), seed=9)
    model.decoder.layers[1].load_state_dict(other.decoder.layers[1].state_dict())


@pytest.mark.parametrize(
    "change",
    [sgd_step, scaled_in_place, copied_in_place, new_parameter, new_layer, state_of_one_layer],
)
@pytest.mark.parametrize("precision", ["model", "int8"])
def test_any_change_of_parameters_is_noticed(change, precision):
    model = tiny.stir(tiny.build_model(TASK))
    generator = generator_of(model, TASK, precision)
    before = scores_by(generator, TASK)
    change(model)
    after = scores_by(generator, TASK)
    assert not torch.equal(after, before)
    # A copy of the model has no prepared weights.
    assert torch.equal(after, logits(copy.deepcopy(model), precision))


def test_a_model_that_has_decoded_can_be_pickled_and_copied():
    model = tiny.stir(tiny.build_model(TASK))
    expected = logits(model)
    n_hooks = sum(len(module._forward_pre_hooks) for module in model.modules())
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert torch.equal(logits(other), expected)
        scaled_in_place(other)
        assert not torch.equal(logits(other), expected)
    assert torch.equal(logits(model), expected)
    assert sum(len(module._forward_pre_hooks) for module in model.modules()) == n_hooks


def test_an_interrupt_while_the_positions_grow(monkeypatch):
    """Later calls prepare them again, instead of using the old ones."""
    task = tiny.task(20)
    model = tiny.stir(tiny.build_model(task, max_target_positions=2000))
    ready = EngineModels([model], "model", ProposalWays())
    ready.follow()
    ready.reaching(5, 20)

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(EngineModels, "parts", interrupt)
        with pytest.raises(KeyboardInterrupt):
            ready.reaching(5, 600)
    lengths = []
    monkeypatch.setattr(EngineModels, "parts", lambda self, n, m: lengths.append(m) or [])
    ready.reaching(5, 600)
    assert lengths == [600]


def test_threads_prepare_weights_once(prepared_layers):
    model = tiny.stir(tiny.build_model(TASK))
    expected = logits(copy.deepcopy(model), "int8")
    n_layers = len(prepared_layers)
    prepared_layers.clear()
    results, start = [None] * 4, threading.Barrier(4)

    def decode(index):
        start.wait()
        results[index] = logits(model, "int8")

    threads = [threading.Thread(target=decode, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(prepared_layers) == n_layers
    assert all(torch.equal(result, expected) for result in results)
