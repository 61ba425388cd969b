"""Processes that mpirun starts: collectives, averaged gradients, training on shares of the data."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl

pytestmark = pytest.mark.native

PROGRAM = Path(__file__).with_name("program.py")
STARTED = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n"]


@pytest.fixture(scope="module", autouse=True)
def launcher() -> None:
    """mpirun and mpi4py are there."""
    pytest.importorskip("mpi4py")
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed; tools/mpi.sh installs it")


def run(*arguments: str, processes: int = 2) -> Any:
    """What the program prints, started by mpirun, or with no processes alone."""
    start = [*STARTED, str(processes)] if processes else []
    alone = [] if processes else ["alone"]
    command = [*start, sys.executable, str(PROGRAM), *arguments, *alone]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_every_collective(device: str) -> None:
    found = run("collectives", device)
    assert found == {
        "rank": 1, "size": 2, "backend": "mpi",
        "SUM": [3.0, 11.0], "AVG": [1.5, 5.5], "PRODUCT": [2.0, 30.0], "MIN": [1.0, 5.0],
        "MAX": [2.0, 6.0], "dtypes": ["bfloat16", [2.0], "int64", [3]],
        "broadcast": [4.0], "reduce": [7.0], "all_gather": [[7.0, 8.0], [8.0, 9.0]],
        "all_gather_into_tensor": [7.0, 8.0, 8.0, 9.0], "gather": [[2.0], [3.0]],
        "scatter": [30.0], "reduce_scatter": [21.0], "reduce_scatter_tensor": [21.0],
        "all_to_all": [[10.0], [11.0]], "all_to_all_single": [10.0, 11.0], "recv": [4.0],
        "all_gather_object": [{"rank": 0}, {"rank": 1}], "broadcast_object_list": ["of 1", 1],
        "scatter_object_list": ["b"], "alone": [1, 0, [10.0]], "errors": found["errors"],
    }  # fmt: skip
    words = ("rank 9 is not in the group of ranks [0, 1]", "PREMUL_SUM is not supported",
             "there is a group already", "1 tensors for 2")  # fmt: skip
    assert all(word in error for word, error in zip(words, found["errors"], strict=True))


def test_gradients_are_averaged_in_buckets() -> None:
    found = run("wrapped")
    for got, exact in zip(found["grads"], found["exact"], strict=True):
        np.testing.assert_allclose(got, exact, rtol=1e-5, atol=1e-6)
    assert found["unused"] == 0.0
    assert "gave no gradients for second.weight, second.bias" in found["refused"]
    assert "find_unused_parameters=True" in found["refused"]


def test_training_equals_that_of_one_process_with_larger_batches(tmp_path: Path) -> None:
    """And a checkpoint of two goes on in one, one of one in two."""
    whole = run("trained", "", "16", "2", "", processes=0)
    for first, second in ((2, 0), (0, 2)):
        path = str(tmp_path / f"of{first}")
        run("trained", path, "8" if first else "16", "1", "", processes=first)
        batch = "8" if second else "16"
        found = run("trained", "", batch, "2", path, processes=second)
        for got, exact in zip(found["weights"], whole["weights"], strict=True):
            np.testing.assert_allclose(got, exact, rtol=1e-5, atol=1e-6)
        assert found["loss"] == pytest.approx(whole["loss"], rel=1e-5)


def test_an_error_in_one_process_ends_all() -> None:
    command = [*STARTED, "2", sys.executable, str(PROGRAM), "failing"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode != 0
    assert "the loss of step" in done.stderr and "is nan" in done.stderr


def test_alone_a_program_of_several_processes_runs() -> None:
    dist: Any = rl.distributed
    dist.init_process_group()
    try:
        x = rl.tensor([2.0])
        dist.all_reduce(x)
        assert x.tolist() == [2.0] and dist.get_world_size() == 1
        with pytest.raises(ValueError, match="send to another"):
            dist.send(x, 0)
        with pytest.raises(ValueError, match="nobody sends"):
            dist.recv(x)
    finally:
        dist.destroy_process_group()
    with pytest.raises(ValueError, match="no process group"):
        dist.barrier()
    with pytest.raises(ValueError, match="world size 3 and rank 0"):
        dist.init_process_group(world_size=3, rank=0)


def test_unknown_strategies_are_refused() -> None:
    model = rl.nn.Linear(1, 1)
    optimizer = rl.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="'fsdp' is not supported; supported: auto, ddp"):
        rl.Trainer(model, optimizer, rl.nn.functional.mse_loss, strategy="fsdp")
