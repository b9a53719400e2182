"""Job files of examples/cluster: they are well-formed, and what they call understands them."""

import os
import stat
import subprocess
from pathlib import Path

import pytest
import yaml

from fairseq_fastdec.corpora.arguments import check, parse_args

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "examples" / "cluster"


@pytest.fixture
def called(tmp_path, monkeypatch):
    """A function that runs a script where a program only notes how it is called.

    It returns the arguments of all calls.
    """
    notes = tmp_path / "notes"

    def run(script, *arguments, program, prints="", **environment):
        stub = tmp_path / "bin" / program
        stub.parent.mkdir(exist_ok=True)
        stub.write_text(f'#!/bin/sh\nprintf "%s\\n" "$#" "$@" >>{notes}\necho "{prints}"\n')
        stub.chmod(stub.stat().st_mode | stat.S_IXUSR)
        path = f"{stub.parent}{os.pathsep}{os.environ['PATH']}"
        subprocess.run(
            ["bash", script, *arguments], check=True, cwd=ROOT, stdout=subprocess.DEVNULL,
            env={**os.environ, "PATH": path, **environment},
        )  # fmt: skip
        lines, calls = iter(notes.read_text().splitlines()), []
        for count in lines:
            calls.append([next(lines) for _ in range(int(count))])
        return calls

    return run


def understood(*words):
    assert words[:3] == ("-m", "fairseq_fastdec", "translate")
    arguments = words[3:]
    args = parse_args(arguments)
    check(args)
    return args


def test_each_job_of_an_array_has_its_part(called):
    environment = {"SLURM_ARRAY_TASK_COUNT": "16", "SLURM_ARRAY_TASK_ID": "3"}
    (call,) = called(CLUSTER / "slurm_array.sbatch", program="python", **environment)
    args = understood(*call)
    assert (args.num_shards, args.shard_id, args.output) == (16, 3, "mono.de")


def test_the_merge_waits_for_the_array(called):
    array, merge = called(CLUSTER / "slurm.sh", program="sbatch", prints="123;cluster")
    assert array == ["--parsable", "examples/cluster/slurm_array.sbatch"]
    assert "--dependency=afterany:123" in merge
    command = merge[merge.index("--wrap") + 1].split()
    assert command == ["bash", "examples/cluster/translate.sh"]


def test_the_merge_has_the_same_command(called):
    (call,) = called(CLUSTER / "translate.sh", program="python")
    args = understood(*call)
    assert (args.num_shards, args.cluster) == (1, None)


def test_the_batch_options_are_of_one_machine_a_job():
    lines = (CLUSTER / "slurm_array.sbatch").read_text().splitlines()
    options = dict(line.split(" ", 1)[1].partition("=")[::2] for line in lines if "#SBATCH" in line)
    assert options["--nodes"] == options["--ntasks"] == "1" and "--requeue" in options


def test_the_job_for_kuberay(called):
    job = yaml.safe_load((CLUSTER / "kuberay.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    program, script, *given = job["spec"]["entrypoint"].split()
    home = "/home/ray/fairseq_fastdec/"
    assert program == "bash" and script.startswith(home)
    (call,) = called(ROOT / script[len(home) :], *given, program="python")
    assert understood(*call).cluster == "ray"


def test_head_workers_and_image_have_the_same_ray():
    spec = yaml.safe_load((CLUSTER / "kuberay.yaml").read_text())["spec"]["rayClusterSpec"]
    dockerfile = (CLUSTER / "Dockerfile").read_text()
    assert f"FROM rayproject/ray:{spec['rayVersion']}-" in dockerfile
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    images = {group["template"]["spec"]["containers"][0]["image"] for group in groups}
    built = f"docker build -f examples/cluster/Dockerfile -t {images.pop()} ."
    assert not images and built in (CLUSTER / "README.md").read_text()
    assert spec["headGroupSpec"]["rayStartParams"] == {"num-cpus": "0"}
    workers = spec["workerGroupSpecs"][0]
    assert workers["minReplicas"] <= workers["replicas"] <= workers["maxReplicas"]
