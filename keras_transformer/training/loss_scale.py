"""Loss scaling, without which most gradients of a float16 model would vanish.

Micikevicius et al. 2018, section 3.2 (arXiv 1710.03740); the dynamic form that became usual.
"""

from __future__ import annotations

import tensorflow as tf

_START, _GROW_AFTER = 2.0**15, 2000


class LossScale:
    """A factor on the loss that halves when a gradient overflows, and doubles after a calm time.

    Made in the strategy's scope.

    Example:
        >>> scale = LossScale()
        >>> scaled = loss * scale.factor  # and its gradient / scale.factor
        >>> scale.adjust(tf.reduce_all(tf.math.is_finite(gradient)))
    """

    def __init__(self):
        self.factor = tf.Variable(_START, trainable=False, name="loss_scale")
        self.calm = tf.Variable(0, trainable=False, name="updates_since_overflow")

    def adjust(self, finite) -> None:
        """Takes note of an update; bool scalar `finite` says whether its gradient was."""
        calm = tf.where(finite, self.calm + 1, 0)
        grow = calm >= _GROW_AFTER
        self.calm.assign(tf.where(grow, 0, calm))
        factor = tf.where(finite, tf.where(grow, 2.0, 1.0), 0.5)
        self.factor.assign(tf.maximum(1.0, self.factor * factor))
