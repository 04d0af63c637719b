"""Weights stored in fewer bits, for a smaller export; computing stays in the model's own dtype."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

STORAGES = ("float32", "float16", "int8")


class StoredWeights(tf.Module):
    """The weights of models in half or a quarter of the bits.

    With "int8", a matrix is stored as whole numbers from -127 to 127 and a float32 factor for each
    of its columns (of an embedding table: rows); vectors stay in float32.

    Args:
        models: Keras models, trained.
        storage: "float32", "float16" or "int8".

    Raises:
        ValueError: The storage is unknown.

    Example:
        >>> stored = StoredWeights([model], "int8")
        >>> with stored.scope():  # where an export's graph is traced
        ...     logits = model([source_ids, target_ids])
    """

    def __init__(self, models: list[keras.Model], storage: str = "float32"):
        super().__init__(name="stored_weights")
        if storage not in STORAGES:
            raise ValueError(
                f"Weights can be stored as {', '.join(STORAGES)}. Received: {storage!r}."
            )
        variables = [variable for model in models for variable in model.weights]
        self._untracked = lambda: variables
        if storage == "float32":
            self.stored = [(variable.value,) for variable in variables]
        else:
            compress = _as_float16 if storage == "float16" else _as_int8
            self.stored = [tuple(map(_constant, compress(variable))) for variable in variables]

    def scope(self):
        """A context in which the models compute with the stored weights."""
        values = (_restored(*parts) for parts in self.stored)
        return keras.StatelessScope(list(zip(self._untracked(), values, strict=True)))


def _constant(value: np.ndarray) -> tf.Variable:
    return tf.Variable(value, trainable=False)


def _as_float16(variable):
    value = variable.numpy()
    if np.abs(value).max(initial=0.0) > np.finfo(np.float16).max:
        raise ValueError(
            f"{variable.path} holds numbers that float16 cannot: store the weights as float32."
        )
    return (value.astype(np.float16),)


def _as_int8(variable):
    value = variable.numpy()
    if value.ndim < 2:
        return (value,)
    axis = 1 if variable.path.endswith("table") else 0
    largest = np.abs(value).max(axis=axis, keepdims=True)
    factors = np.where(largest > 0, largest / 127.0, 1.0).astype(np.float32)
    return np.round(value / factors).astype(np.int8), factors


def _restored(value, factors=None):
    value = tf.cast(value, tf.float32)
    return value if factors is None else value * factors
