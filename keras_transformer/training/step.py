"""One optimiser update over all devices, exact per token (paper sections 5.1 to 5.4)."""

from __future__ import annotations

import typing

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.config import PAD_ID
from keras_transformer.training.loss import both_cross_entropies, token_weights


class StepResult(typing.NamedTuple):
    """What an update, or an evaluation of a batch, saw.

    Attributes:
        loss: float, the sum over tokens of the (smoothed) cross entropy in nats.
        nll: float, the sum without smoothing.
        tokens: float, the number of real target tokens.
        gradient_norm: float, of the gradient (with several replicas, the sum of their parts'
            norms); 0 for an evaluation.
    """

    loss: float
    nll: float
    tokens: float
    gradient_norm: float = 0.0


class TrainStep:
    """Updates a model from global batches.

    The loss is the sum over the real target tokens of the whole batch divided by their number over
    all devices, so that how the batch is split makes no difference.

    Args:
        model: From `build_transformer`, made in the strategy's scope.
        optimizer: A Keras optimiser, made in the strategy's scope.
        smoothing: epsilon_ls.
        strategy: The `tf.distribute` strategy.
        jit_compile: Whether to compile forward and backward pass with XLA, once a batch shape.

    Example:
        >>> step = TrainStep(model, optimizer, 0.1, strategy)
        >>> result = step(source, target_in, target_out)
        >>> result.loss / result.tokens
    """

    def __init__(self, model: keras.Model, optimizer, smoothing, strategy, jit_compile=False):
        self.model, self.optimizer, self.strategy = model, optimizer, strategy
        self.smoothing = smoothing
        self._weights = [variable.value for variable in model.trainable_variables]
        with strategy.scope():
            optimizer.build(model.trainable_variables)
        self._gradients = tf.function(self._gradients, jit_compile=jit_compile, autograph=False)
        options = {"autograph": False, "reduce_retracing": True}
        if strategy.num_replicas_in_sync == 1:
            # (An optimiser's update over several devices needs ops that XLA does not compile.)
            self._apply = tf.function(self._apply, jit_compile=jit_compile, autograph=False)
            ids = tf.TensorSpec([None, None], tf.int32)
            options = {"autograph": False, "input_signature": [ids] * 3}
        self._update_all = tf.function(self._update_all, **options)
        self._measure_all = tf.function(self._measure_all, **options)

    def __call__(self, source, target_in, target_out) -> StepResult:
        """One update from a global batch, whose rows are shared out evenly over the replicas.

        Args:
            source: int32 `[rows, source_length]`.
            target_in: int32 `[rows, target_length]`, from the begin mark.
            target_out: int32 `[rows, target_length]`, to the end mark.
        """
        return self._run(self._update_all, source, target_in, target_out)

    def evaluate(self, source, target_in, target_out) -> StepResult:
        """The same numbers without dropout, changing nothing."""
        return self._run(self._measure_all, source, target_in, target_out)

    def _run(self, function, *arrays) -> StepResult:
        replicas = self.strategy.num_replicas_in_sync
        if replicas > 1:
            missing = -len(arrays[0]) % replicas  # rows of padding change nothing
            padded = [np.pad(a, ((0, missing), (0, 0)), constant_values=PAD_ID) for a in arrays]
            arrays = [self._distribute(np.split(array, replicas)) for array in padded]
        return StepResult(*(float(value) for value in function(*arrays)))

    def _distribute(self, parts):
        return self.strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(parts[context.replica_id_in_sync_group])
        )

    def _update_all(self, *arrays):
        sums = self.strategy.run(self._update, arrays)
        return [self.strategy.reduce("SUM", value, axis=None) for value in sums]

    def _measure_all(self, *arrays):
        sums = self.strategy.run(self._measure, arrays)
        return [self.strategy.reduce("SUM", value, axis=None) for value in sums]

    # What follows runs on each replica, with its part of the batch.

    def _update(self, source, target_in, target_out):
        tokens = tf.reduce_sum(token_weights(target_out))
        all_tokens = tf.distribute.get_replica_context().all_reduce("SUM", tokens)
        gradients, sums = self._gradients(source, target_in, target_out, all_tokens)
        self._apply(gradients)
        return *sums, tokens, tf.linalg.global_norm(gradients)

    def _gradients(self, source, target_in, target_out, all_tokens):
        with tf.GradientTape() as tape:
            logits = self.model([source, target_in], training=True)
            loss, nll = self._losses(target_out, logits)
            mean = tf.math.divide_no_nan(loss, all_tokens)
        gradients = tape.gradient(mean, self._weights)
        # A tied table's gradient comes from a gather and a product: one dense sum of both.
        return [tf.convert_to_tensor(gradient) for gradient in gradients], (loss, nll)

    def _apply(self, gradients):
        self.optimizer.apply(gradients, self.model.trainable_variables)

    def _measure(self, source, target_in, target_out):
        logits = self.model([source, target_in], training=False)
        return *self._losses(target_out, logits), tf.reduce_sum(token_weights(target_out))

    def _losses(self, target_out, logits):
        pair = both_cross_entropies(target_out, logits, self.smoothing)
        return tuple(tf.reduce_sum(losses) for losses in pair)
