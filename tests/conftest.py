"""Shared fixtures: where the real corpora are, and a small trained world."""

import os
import pathlib
import socket
import subprocess
import typing

# Before TensorFlow is imported: its notes about GPUs it did not find are no one's news.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import DecodingConfig, TransformerConfig
from keras_transformer.data.demo import make_demo_corpus
from keras_transformer.export import export_saved_model
from keras_transformer.model import build_transformer
from keras_transformer.text.vocabulary import Vocabularies
from keras_transformer.training.strategy import tf_config

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
    """Starts a process a command, all of them one cluster; ends what is left.

    Each is told of it by TF_CONFIG, or with `flags` by its command line.
    """
    processes = []

    def start(*commands, flags=False):
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in commands]
        workers = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
        for one in sockets:
            one.close()
        for index, command in enumerate(commands):
            environment = dict(os.environ)
            if flags:
                command = [*command, "--workers", ",".join(workers), "--worker-index", str(index)]
            else:
                environment["TF_CONFIG"] = tf_config(workers, index)
            processes.append(
                subprocess.Popen(
                    command,
                    env=environment,
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


class World(typing.NamedTuple):
    """See `world`."""

    model: keras.Model
    vocabularies: Vocabularies
    config: DecodingConfig
    path: pathlib.Path
    lines: list[str]


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """A random model, its vocabularies, an export that was moved since, and lines to translate."""
    config = DecodingConfig(beam_size=3, extra_length=5, max_source_length=150)
    folder = tmp_path_factory.mktemp("exports")
    source, target = make_demo_corpus(300, 1, 1).train
    vocabularies = Vocabularies.learn(source, target, vocab_size=400)
    model = build_transformer(
        TransformerConfig(vocab_size=400, num_layers=1, d_model=16, d_ff=32, num_heads=2)
    )
    generator = np.random.default_rng(5)  # sharper than an initial model, so that ties are rare
    for variable in model.trainable_variables:
        if "norm" not in variable.path:
            variable.assign(generator.normal(0, 0.5, variable.shape))
    export_saved_model(model, vocabularies, config, folder / "made" / "1")
    (folder / "made").rename(folder / "moved")
    lines = [*source[:90], "", "x", "word " * 20, "👩‍👧 ひらがな", *source[90:97]]
    return World(model, vocabularies, config, folder / "moved" / "1", lines)
