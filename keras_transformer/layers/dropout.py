"""Dropout that costs half the random bits (paper section 5.4)."""

import keras
import tensorflow as tf
from keras import ops


@keras.saving.register_keras_serializable("keras_transformer")
class Dropout(keras.layers.Layer):
    """As `keras.layers.Dropout`, with 16 random bits an element instead of 32.

    Random numbers are a good part of a small model's training step on a CPU. With 16 bits the rate
    is exact to 1/65,536, and the kept elements are scaled by the rate in force, so that the
    expectation is exact.

    Args:
        rate: Share of the elements set to zero, from 0 to below 1.
        seed: An int, or None for one drawn at random (`keras.utils.set_random_seed` decides it).

    Example:
        >>> y = Dropout(0.1)(keras.ops.ones((2, 8)), training=True)
    """

    def __init__(self, rate, seed=None, **kwargs):
        super().__init__(**kwargs)
        if not 0.0 <= rate < 1.0:
            raise ValueError(f"`rate` should be from 0 to below 1. Received: rate={rate}.")
        self.rate, self.seed = rate, seed
        self.seed_generator = keras.random.SeedGenerator(seed) if rate else None
        self.built = True

    def call(self, x, training=False):
        """`x` with dropped elements, of the same shape and dtype; `x` itself unless training."""
        threshold = min(round(self.rate * 65536), 65535)
        if not training or not threshold:
            return x
        keep = self._random_bits(tf.shape(x)) >= tf.constant(threshold, tf.uint16)
        scale = ops.cast(65536 / (65536 - threshold), x.dtype)
        return x * tf.where(keep, scale, ops.zeros_like(scale))

    def _random_bits(self, shape):
        """uint16 random numbers of a shape, two out of each 32-bit one."""
        size = tf.reduce_prod(shape)
        words = tf.random.stateless_uniform(
            [(size + 1) // 2],
            seed=tf.cast(self.seed_generator.next(), tf.int32) + [0, _replica()],
            minval=None,
            maxval=None,
            dtype=tf.int32,
        )
        return tf.reshape(tf.reshape(tf.bitcast(words, tf.uint16), [-1])[:size], shape)

    def compute_output_spec(self, x, training=False):
        return keras.KerasTensor(x.shape, dtype=x.dtype)

    def get_config(self):
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}


def _replica():
    """The number of the replica at work: each drops elements of its own. 0 where there is one."""
    context = tf.distribute.get_replica_context()
    return 0 if context is None else context.replica_id_in_sync_group
