"""The sbatch array script: what it asks for, and that its shares together do the whole plan."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.config import ConfigError
from experiments.runner import plan, slurm
from experiments.runner.slurm import Cluster
from tests.experiments.runner_kit import completions, expected, make_runs, scores

ROOT = Path(__file__).parents[2]


def written(tmp_path: Path, cluster: Cluster) -> Path:
    planned = plan.plan("x", make_runs(4, 3), tmp_path)
    command = [sys.executable, "-m", "tests.experiments.runner_launch", str(tmp_path), "--workers=1"]
    return slurm.write_script(tmp_path / "job.sh", planned, cluster, command, setup=[f"cd '{ROOT}'"])


def test_the_script_asks_for_what_was_said(tmp_path):
    cluster = Cluster(tasks=6, at_once=2, hours=1.5, cpus=2, memory_gb=8, gpus=1, partition="gpu", account="lab",
                      extra=("--constraint=a100",))
    text = written(tmp_path, cluster).read_text()
    asked = re.findall(r"^#SBATCH (.*)$", text, re.MULTILINE)
    assert asked == [
        "--job-name=x", "--array=0-5%2", "--time=90", "--cpus-per-task=2", "--mem=8G",
        f"--output={tmp_path}/x/slurm/%A_%a.txt", "--open-mode=append", "--requeue", "--signal=B:TERM@60",
        "--gres=gpu:1", "--partition=gpu", "--account=lab", "--constraint=a100",
    ]
    assert text.startswith("#!/bin/bash\n")
    assert text.endswith('--shard "$SLURM_ARRAY_TASK_ID/6"\n')
    assert (tmp_path / "x" / "slurm").is_dir()


def test_the_shares_of_an_array_together_do_every_run_once(tmp_path):
    script = written(tmp_path, Cluster(tasks=3))
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0
    tasks = [
        subprocess.Popen([str(script)], env={**os.environ, "SLURM_ARRAY_TASK_ID": str(index)}, stdout=subprocess.PIPE)
        for index in range(3)
    ]
    for task in tasks:
        task.communicate(timeout=60)
    assert [task.returncode for task in tasks] == [0, 0, 0]
    assert set(completions(tmp_path, make_runs(4, 3)).values()) == {1}
    assert scores(tmp_path, make_runs(4, 3)) == expected(make_runs(4, 3))


def test_a_shell_can_take_any_path(tmp_path):
    planned = plan.plan("x", make_runs(1, 1), tmp_path)
    text = slurm.script(planned, Cluster(tasks=1), ["/a b/python", "run_all.py", "worker", "it's"])
    assert """exec '/a b/python' run_all.py worker 'it'"'"'s' --shard""" in text


def test_impossible_wishes_are_all_named_at_once(tmp_path):
    with pytest.raises(ConfigError) as caught:
        written(tmp_path, Cluster(tasks=13, hours=0, gpus=4, at_once=0))
    assert caught.value.problems == [
        ("--hours", "0 must be more than 0 and at most 8760"),
        ("--tasks", "13 must be between 1 and 12, the number of runs"),
        ("--gpus", "4 must be 0 or 1: an array task trains one run at a time"),
        ("--at-once", "0 must be at least 1"),
    ]


@pytest.mark.parametrize("wish, said", [
    ({"hours": float("inf")}, "--hours: inf must be more than 0 and at most 8760"),
    ({"hours": float("nan")}, "--hours: nan must be more than 0 and at most 8760"),
    ({"memory_gb": 10**10}, "--memory-gb: 1e+10 must be more than 0 and at most 1e+06"),
    ({"partition": "a b"}, "--partition: 'a b' must be a name as the cluster knows it"),
    ({"account": "x\n#SBATCH --reservation=theirs"}, "--account: 'x\\n#SBATCH --reservation=theirs' must be a name"),
])  # fmt: skip
def test_a_wish_that_no_cluster_can_read_is_refused_before_anything_is_written(tmp_path, wish, said):
    with pytest.raises(ConfigError) as caught:
        written(tmp_path, Cluster(tasks=1, **wish))
    assert said in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_results_folder_with_spaces_and_per_cent_is_named_as_slurm_reads_it(tmp_path):
    planned = plan.plan("x", make_runs(1, 1), tmp_path / "50 % of it")
    text = slurm.script(planned, Cluster(tasks=1), ["run_all.py"])
    assert f"#SBATCH --output='{tmp_path}/50 %% of it/x/slurm/%A_%a.txt'\n" in text


def test_a_file_that_is_no_script_is_never_written_over(tmp_path):
    precious = tmp_path / "my.yaml"
    precious.write_text("name: q")
    planned = plan.plan("x", make_runs(1, 1), tmp_path)
    for place, said in ((precious, "is there and is no sbatch script"), (tmp_path, "is a folder; name a file")):
        with pytest.raises(ConfigError, match=said):
            slurm.write_script(place, planned, Cluster(tasks=1), ["run_all.py"])
    assert precious.read_text() == "name: q"
    for _ in range(2):  # its own script of last time it may replace
        assert slurm.write_script(tmp_path / "job.sh", planned, Cluster(tasks=1), ["run_all.py"]).is_file()


def test_shares_are_written_as_share_of_shares():
    assert slurm.shard("3/16") == (3, 16)
    for text in ("16/16", "a/b", "3", "-1/4", "1/0", "０/２", f"1/1{'0' * 30}"):
        with pytest.raises(ConfigError, match="must be SHARE/SHARES with 0 <= SHARE < SHARES, such as 0/16"):
            slurm.shard(text)
