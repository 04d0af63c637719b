"""Where a search keeps what each step adds."""

from __future__ import annotations

import typing

import keras
import tensorflow as tf


class Room(typing.NamedTuple):
    """Tensors that take one position more at each step of a search.

    Attributes:
        steps: Positions that there is room for from the start, so that shapes stay as they are:
            XLA wants it so. None for tensors that grow: less to compute, where it may be.

    Example:
        >>> room = Room(steps=3)
        >>> ids = room.empty((1,), (), 1, tf.int32)
        >>> room.put(ids, tf.constant([[7]]), 1, axis=1).numpy().tolist()
        [[0, 7, 0]]
    """

    steps: int | None = None

    def empty(self, before, after, slots: int, dtype):
        """Zeros `[*before, positions * slots, *after]`: of all positions there is room for."""
        return tf.zeros((*before, (self.steps or 0) * slots, *after), dtype)

    def put(self, tensor, piece, place, axis: int):
        """`tensor` with `piece` at `place` of an axis; a tensor that grows ends there."""
        if self.steps is None:
            return tf.concat([tensor, piece], axis)
        start = [place if i == axis else 0 for i in range(len(tensor.shape))]
        return keras.ops.slice_update(tensor, start, piece)


GROWING = Room()
