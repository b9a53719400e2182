"""Checkpoints load, and only safely; no batch is dropped."""

import argparse
import pickle

import numpy
import pytest
import torch
from fairseq import checkpoint_utils, utils
from fairseq.data import data_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.models.transformer import TransformerModel
from omegaconf import OmegaConf

from fairseq_fastdec.fairseq_patches import compat
from tests.support import after_import, forked, tiny
from tests.support.command_line import generate, hypotheses, interactive, train
from tests.support.malicious import Malicious


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
@pytest.mark.parametrize("place", ["args", "cfg", "model", "extra_state"])
def test_a_malicious_checkpoint_is_refused_and_runs_nothing(tmp_path, place, legacy):
    trace = tmp_path / "was-here"
    state = {"args": None, "cfg": None, "model": {}, "extra_state": {}}
    state[place] = {"x": Malicious(f"touch {trace}")}
    path = tmp_path / "evil.pt"
    torch.save(state, path, _use_new_zipfile_serialization=not legacy)
    with pytest.raises(pickle.UnpicklingError, match="system"):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))
    assert not trace.exists()


def test_the_variable_that_allows_any_pickle_is_ignored(baseline, tmp_path):
    """Users of fairseq export it for torch 2.6; healthy checkpoints load, malicious ones do not."""
    trace = tmp_path / "was-here"
    torch.save({"args": None, "model": {"x": Malicious(f"touch {trace}")}}, tmp_path / "evil.pt")
    code = (
        "import fairseq_fastdec, sys; from fairseq.checkpoint_utils import load_checkpoint_to_cpu;"
        "load_checkpoint_to_cpu(sys.argv[1])"
    )

    def load(path):
        return after_import.run(code, path, TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD="1")

    healthy, evil = load(baseline), load(tmp_path / "evil.pt")
    assert healthy.returncode == 0, healthy.stderr
    assert "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD: ignored" in healthy.stderr
    assert evil.returncode != 0 and "could execute arbitrary code" in evil.stderr
    assert not trace.exists()


@pytest.mark.skipif(
    torch.__version__ < "2.6",
    reason="torch reads any pickle by default: install torch 2.6 or later",
)
def test_other_code_of_the_process_may_load_any_pickle(tmp_path):
    torch.save(Malicious("true"), tmp_path / "own.pt")
    code = "import fairseq_fastdec, fairseq, sys, torch;torch.load(sys.argv[1], weights_only=False)"
    # Test processes may inherit the variable.
    done = after_import.run(code, tmp_path / "own.pt", TORCH_FORCE_WEIGHTS_ONLY_LOAD="")
    assert done.returncode == 0, done.stderr


def test_the_malicious_checkpoint_would_have_run(tmp_path):
    """Otherwise the test above proves nothing."""
    trace = tmp_path / "was-here"
    pickle.loads(pickle.dumps(Malicious(f"touch {trace}")))
    assert trace.exists()


def test_old_style_checkpoints_load(tmp_path):
    """Before fairseq 0.10 the options were a Namespace under "args"; no "cfg"."""
    task = tiny.task(20)
    model = tiny.build_model(task)
    args = argparse.Namespace(
        arch="transformer", task="translation", source_lang="en", target_lang="de",
        criterion="cross_entropy", optimizer="adam", lr_scheduler="fixed", lr=[0.1],
        **tiny.SIZES,
    )  # fmt: skip
    state = {
        "args": args,
        "model": model.state_dict(),
        "optimizer_history": [
            {"criterion_name": "CrossEntropyCriterion", "optimizer_name": "FairseqAdam",
             "lr_scheduler_state": {"best": None}, "num_updates": 7}
        ],
        "last_optimizer_state": None,
        "extra_state": {"epoch": 1, "batch_offset": 0, "val_loss": 3.0},
    }  # fmt: skip
    for legacy in (False, True):
        path = tmp_path / f"old-{legacy}.pt"
        torch.save(state, path, _use_new_zipfile_serialization=not legacy)
        models, cfg = checkpoint_utils.load_model_ensemble([str(path)], task=task)
        assert cfg.model.encoder_layers == 2
        net_input = tiny.random_batch(task, [3, 5])["net_input"]
        loaded = models[0].eval()
        assert torch.equal(loaded(**net_input)[0], model(**net_input)[0])


def test_numpy_values_in_training_meters_load(tmp_path):
    """--eval-bleu leaves arrays, and numpy scalars, in extra_state."""
    path = tmp_path / "meters.pt"
    meters = {"sum": numpy.array([1, 2]), "avg": numpy.float64(0.5), "n": numpy.int64(3)}
    history = [{"num_updates": 1, "lr_scheduler_state": {}}]
    meters["train_iterator"] = {"epoch": 1}
    state = {"args": None, "cfg": {}, "model": {}, "extra_state": meters}
    torch.save({**state, "optimizer_history": history}, path)
    loaded = checkpoint_utils.load_checkpoint_to_cpu(str(path))["extra_state"]
    assert loaded["sum"].tolist() == [1, 2]
    assert (loaded["avg"], loaded["n"]) == (0.5, 3)


@pytest.mark.parametrize("n_sentences", [0, 1, 7, 8, 29, 64])
@pytest.mark.parametrize("limits", [dict(max_sentences=16), dict(max_tokens=40)])
def test_every_sentence_is_in_a_batch_once_and_in_order(n_sentences, limits):
    """fairseq after 0.12.2 drops up to seven."""
    sizes = numpy.arange(n_sentences) % 9 + 1
    batches = data_utils.batch_by_size(
        numpy.arange(n_sentences),
        lambda index: int(sizes[index]),
        num_tokens_vec=sizes,
        required_batch_size_multiple=8,
        **limits,
    )
    assert [index for batch in batches for index in batch] == list(range(n_sentences))


def test_checkpoints_of_the_first_version(baseline, corpus, tmp_path):
    """It saved tasks under names that exist no longer, and options that it has removed since."""
    state = torch.load(baseline, weights_only=True)
    state["cfg"]["task"] = {**state["cfg"]["task"], "_name": "translation_fastdec", "removed": 3}
    torch.save(state, tmp_path / "old.pt")
    expected = generate(corpus, baseline, "--decoding", "greedy")
    found = generate(corpus, tmp_path / "old.pt", "--decoding", "greedy")
    assert hypotheses(found) == hypotheses(expected)
    models, cfg, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(tmp_path / "old.pt")], {"data": str(corpus)}
    )
    assert task.cfg._name == "translation" and not hasattr(task.cfg, "removed")
    (stock,), _, _ = checkpoint_utils.load_model_ensemble_and_task(
        [str(baseline)], {"data": str(corpus)}
    )
    assert torch.equal(models[0].decoder.embed_tokens.weight, stock.decoder.embed_tokens.weight)
    # An option that the checkpoint does not have is not lost.
    hub = TransformerModel.from_pretrained(
        str(tmp_path), "old.pt", str(corpus), tokenizer=None, bpe=None, decoding="greedy"
    )
    assert hub.task.cfg.decoding == "greedy"
    options = ["--arch", "transformer", "--criterion", "label_smoothed_cross_entropy"]
    options += ["--restore-file", tmp_path / "old.pt"]
    train(corpus, tmp_path / "new", *options, updates=152)


@pytest.mark.parametrize("overrides", [None, {"beam": 2}])
def test_tasks_without_a_dataclass_of_the_first_version(baseline, tmp_path, overrides):
    state = torch.load(baseline, weights_only=True)
    state["cfg"]["task"] = argparse.Namespace(task="multilingual_translation_fastdec", data="d")
    torch.save(state, tmp_path / "old.pt")
    loaded = checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "old.pt"), overrides)
    assert loaded["cfg"].task.task == "multilingual_translation"


def test_current_names_of_tasks():
    assert compat.current_task("speech_to_text_fastdec") == "speech_to_text"
    for name in ("translation", "translation_double_token", "no_task", "no_task_fastdec"):
        assert compat.current_task(name) == name


def passed_on(rank, folder):
    """What a worker of two gets of the state that the first has read."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2
    )
    state = None
    if rank == 0:
        state = {
            "cfg": OmegaConf.create({"model": {"arch": "transformer"}, "lr": [0.1]}),
            "model": {"weight": torch.arange(6.0).view(2, 3)},
            "extra_state": {"epoch": 3, "meters": numpy.float64(0.5)},
        }
    group = torch.distributed.group.WORLD
    received = distributed_utils.broadcast_object(state, 0, group)
    (folder / str(rank)).write_bytes(pickle.dumps(received))


def test_workers_get_the_checkpoint_that_the_first_has_read(tmp_path):
    torch.multiprocessing.start_processes(
        passed_on, (tmp_path,), nprocs=2, start_method=forked.METHOD
    )
    first, second = (pickle.loads((tmp_path / rank).read_bytes()) for rank in "01")
    assert second["cfg"] == first["cfg"] and second["cfg"].model.arch == "transformer"
    assert second["model"]["weight"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert second["extra_state"] == {"epoch": 3, "meters": 0.5}


@pytest.mark.parametrize("given", [(), ("-s", "en", "-t", "de")], ids=["from the data", "given"])
def test_the_moses_tokeniser_finds_the_languages(corpus, baseline, tmp_path, given):
    """fairseq's command ended with "Error merging override tokenizer.source_lang=null"."""
    moses = ("--tokenizer", "moses", *given)
    printed = generate(corpus, baseline, "--decoding", "greedy", *moses)
    assert len(hypotheses(printed)) == 29
    printed = interactive(corpus, baseline, ["a b c"], tmp_path, "--decoding", "greedy", *moses)
    assert hypotheses(printed) == {0: "c b a"}


def test_the_moses_tokeniser_without_languages_says_what_to_give(baseline, tmp_path):
    for data, reason in (
        (tmp_path, "give -s and -t, or the"),
        (tmp_path / "no", "No such file"),
    ):
        with pytest.raises(
            ValueError, match=f"^--tokenizer moses: needs the languages: .*{reason}"
        ):
            generate(data, baseline, "--tokenizer", "moses")


def test_a_process_ends_while_batches_are_prepared():
    code = """
import fairseq_fastdec.plugin, torch
from fairseq.data.iterators import BufferedIterator

class Source:
    def __len__(self):
        return 10**9

    def __iter__(self):
        while True:
            yield torch.ones(300, 300).mm(torch.ones(300, 300))

for size in (10000, 1):
    next(BufferedIterator(size, Source()))
"""
    done = after_import.run(code)
    assert done.returncode == 0 and "terminate" not in done.stderr


@pytest.mark.parametrize(
    "alignment",
    [
        [(2, 0), (0, 1)],
        [["0.1", "0.2", "0.3", "0.4"], ["0.5", "0.2", "0.2", "0.1"], ["0", "0", "0", "1"]],
        torch.tensor([2, 0]),
    ],
)
def test_unknown_words_are_replaced_by_any_alignment(alignment):
    replaced = utils.replace_unk("<unk> b", "x y z", alignment, {"z": "Z"}, "<unk>")
    assert replaced == "Z b"
    assert utils.replace_unk("a b", "x y z", alignment, {}, "<unk>") == "a b"


def test_unknown_words_of_joined_subwords():
    with pytest.raises(ValueError, match="^--replace-unk: .*; remove --post-process"):
        utils.replace_unk("<unk>", "x y", [(0, 0), (1, 1)], {}, "<unk>")
