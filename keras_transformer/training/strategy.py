"""Where training runs: a `tf.distribute` strategy by name (paper section 5.2)."""

from __future__ import annotations

import json
import os
import re

import tensorflow as tf

STRATEGIES = ("auto", "single", "mirrored", "multiworker", "tpu")


def make_strategy(name: str = "auto") -> tf.distribute.Strategy:
    """The strategy for this machine.

    Args:
        name: "single": one device. "mirrored": all GPUs, or all logical CPU devices where there
            are several. "multiworker": all devices of several processes, which the environment
            variable TF_CONFIG describes as TensorFlow documents it. "tpu": the TPU that TPU_NAME
            names, else the local one. "auto": "multiworker" where TF_CONFIG is set, "mirrored" with
            more than one GPU, else "single".

    Raises:
        ValueError: The name is unknown, TF_CONFIG is missing or unfit, or there is no TPU.

    Example:
        >>> with make_strategy("auto").scope():
        ...     model = build_transformer(config)
    """
    if name not in STRATEGIES:
        raise ValueError(f"There is no strategy {name!r}. There are: {', '.join(STRATEGIES)}.")
    if name == "multiworker" or (name == "auto" and "TF_CONFIG" in os.environ):
        return _multiworker()
    if name == "tpu":
        return _tpu()
    gpus = tf.config.list_logical_devices("GPU")
    if name == "auto":
        name = "mirrored" if len(gpus) > 1 else "single"
    if name == "single":
        return tf.distribute.get_strategy()
    devices = gpus or tf.config.list_logical_devices("CPU")
    return tf.distribute.MirroredStrategy([device.name for device in devices])


def tf_config(workers: list[str], index: int) -> str:
    """The environment variable TF_CONFIG of one of several processes that train together.

    Args:
        workers: Each one's host:port, in the same order for all.
        index: This one's place in it, from 0.

    Raises:
        ValueError: An address is unfit or there twice, or the index is none of theirs.

    Example:
        >>> os.environ["TF_CONFIG"] = tf_config(["host1:9999", "host2:9999"], 0)
    """
    fit = all(re.fullmatch(r"[^\s:/]+:\d{1,5}", worker) for worker in workers)
    if not fit or len(set(workers)) < len(workers):
        raise ValueError(
            "The workers should be distinct HOST:PORT, with commas between, as in "
            f"host1:9999,host2:9999. Received: {','.join(workers)!r}."
        )
    if not 0 <= index < len(workers):
        raise ValueError(
            f"The worker's index should be from 0 to {len(workers) - 1}, its place among "
            f"{','.join(workers)}. Received: {index}."
        )
    task = {"type": "worker", "index": index}
    return json.dumps({"cluster": {"worker": workers}, "task": task})


def _multiworker() -> tf.distribute.Strategy:
    text = os.environ.get("TF_CONFIG", "")
    try:
        described = json.loads(text)
        jobs, task = described["cluster"], described["task"]
        jobs[task["type"]][task["index"]]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ValueError(
            "TF_CONFIG should describe the processes that train together, as in "
            '{"cluster": {"worker": ["host1:9999", "host2:9999"]}, "task": {"type": "worker", '
            f'"index": 0}}}}, with an index of its own in each. Received: TF_CONFIG={text!r}.'
        ) from error
    return tf.distribute.MultiWorkerMirroredStrategy()


def _tpu() -> tf.distribute.Strategy:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(os.environ.get("TPU_NAME", ""))
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, tf.errors.OpError) as error:
        raise ValueError(
            f"No TPU was found: {str(error).strip().splitlines()[0]} Set TPU_NAME, or choose "
            "another strategy."
        ) from error
    return tf.distribute.TPUStrategy(resolver)
