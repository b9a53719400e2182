"""Double-token decoding of sentences one by one: streams, the service's queue, bundles."""

import pytest
import torch

import fairseq_fastdec
from fairseq_fastdec.checkpoints.codec import TaskCodec
from fairseq_fastdec.checkpoints.translator import CheckpointTranslator
from fairseq_fastdec.tools.export import export
from tests.support.compiled import compiled
from tests.support.to_read import method_to_read
from tests.support.together import all_at_once
from tests.support.trained_models import DOUBLE_TASKS, ORDERS, double_model

pytestmark = compiled

LINES = ["a b c d", "c", "e f g h i j k a", "b a"]


@pytest.fixture(scope="module", params=ORDERS)
def translator(request):
    task, model = DOUBLE_TASKS[request.param], double_model(request.param, torch.float32)
    made = CheckpointTranslator(
        task, [model], TaskCodec(task, None, None), "cpu", {"max_len_b": 12}
    )
    yield made
    made.close()


@pytest.fixture(scope="module")
def bundle(translator, tmp_path_factory):
    path = tmp_path_factory.mktemp("pairs") / "model.fastdec"
    export(translator, path)
    made = fairseq_fastdec.load(path)
    yield made
    made.close()


@pytest.mark.parametrize("options", [{}, {"beam": 5}, {"beam": 3, "nbest": 3, "lenpen": 0.5}])
def test_streams_and_bundles_have_the_translations_of_batches(translator, bundle, options):
    expected = [translator.translate(line, details=True, **options) for line in LINES]
    assert "nbest" not in options or len(expected[0]) == options["nbest"]
    for own in (translator, bundle):
        assert [own.translate(line, details=True, **options) for line in LINES] == expected
        assert [found for _, found in own.translate_stream(LINES, **options)] == expected
        assert all_at_once(own, LINES, details=True, **options) == expected


def test_they_are_those_of_torch(translator, bundle):
    task = translator.task
    model = double_model(task.token_order.name, torch.float32)
    to_read = method_to_read([model], "double_token", task=task, beam=4, max_len_b=12)
    for line in LINES:
        tokens = task.source_dictionary.encode_line(line, add_if_not_exist=False).long()[None]
        net_input = {"src_tokens": tokens, "src_lengths": torch.tensor([tokens.numel()])}
        net_input["prev_output_tokens"] = tokens
        (expected,) = to_read.generate([model], {"net_input": net_input})
        found = bundle.translate(line, details=True, beam=4)
        words = [task.target_dictionary[token] for token in expected[0]["tokens"].tolist()]
        assert [*found.tokens, "</s>"] == words
        assert found.score == pytest.approx(expected[0]["score"].item(), abs=1e-4)


def test_methods_of_one_token_a_step_are_not_in_the_bundle(bundle):
    with pytest.raises(ValueError, match="decoding greedy: the bundle has double_token; export"):
        bundle.translate("a", decoding="greedy")
