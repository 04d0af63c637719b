"""Where training runs: a `tf.distribute` strategy by name (paper section 5.2)."""

from __future__ import annotations

import tensorflow as tf

STRATEGIES = ("auto", "single", "mirrored")


def make_strategy(name: str = "auto") -> tf.distribute.Strategy:
    """The strategy for this machine.

    Args:
        name: "single": one device. "mirrored": all GPUs, or all logical CPU devices where there
            are several. "auto": "mirrored" with more than one GPU, else "single".

    Raises:
        ValueError: The name is unknown.

    Example:
        >>> with make_strategy("auto").scope():
        ...     model = build_transformer(config)
    """
    if name not in STRATEGIES:
        raise ValueError(f"There is no strategy {name!r}. There are: {', '.join(STRATEGIES)}.")
    gpus = tf.config.list_logical_devices("GPU")
    if name == "auto":
        name = "mirrored" if len(gpus) > 1 else "single"
    if name == "single":
        return tf.distribute.get_strategy()
    devices = gpus or tf.config.list_logical_devices("CPU")
    return tf.distribute.MirroredStrategy([device.name for device in devices])
