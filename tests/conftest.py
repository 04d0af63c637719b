"""Shared fixtures: where the real corpora are, and a small trained world."""

import json
import os
import pathlib
import socket
import subprocess

# Before TensorFlow is imported: its notes about GPUs it did not find are no one's news.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pytest
import tensorflow as tf

ROOT = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def real_data() -> pathlib.Path:
    """Folder of the real corpora; skips in a stranger's clone, fails in CI.

    Found through the environment variable KERAS_TRANSFORMER_DATA, by default `../shared/data`.
    """
    folder = pathlib.Path(os.environ.get("KERAS_TRANSFORMER_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / "multi30k" / "train.en.gz").exists():
        message = (
            f"the real corpora are not in {folder}; set KERAS_TRANSFORMER_DATA to the folder "
            "that holds multi30k/, tatoeba/ and newstest/ to run this test"
        )
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return folder


@pytest.fixture
def eagerly():
    """Runs tf.functions op by op: for a handful of steps that is quicker than tracing them."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture
def start_workers():
    """Starts a process a command, TF_CONFIG in each making them one cluster; ends what is left."""
    processes = []

    def start(*commands):
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in commands]
        workers = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
        for one in sockets:
            one.close()
        for index, command in enumerate(commands):
            task = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
            processes.append(
                subprocess.Popen(
                    command,
                    env={**os.environ, "TF_CONFIG": json.dumps(task)},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        return processes

    yield start
    for process in processes:
        process.kill()
        process.wait()
