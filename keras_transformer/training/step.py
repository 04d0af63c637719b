"""One optimiser update over all devices, exact per token (paper sections 5.1 to 5.4)."""

from __future__ import annotations

import math
import typing

import numpy as np
import tensorflow as tf

from keras_transformer.config import PAD_ID
from keras_transformer.training.loss import both_cross_entropies
from keras_transformer.training.loss_scale import LossScale
from keras_transformer.training.optimizer import FusedAdam


class StepResult(typing.NamedTuple):
    """What an update, or an evaluation of a batch, saw.

    Attributes:
        loss: float, the sum over tokens of the (smoothed) cross entropy in nats.
        nll: float, the sum without smoothing.
        tokens: float, the number of real target tokens.
        gradient_norm: float, of the gradient of loss / tokens, before clipping; 0 for an
            evaluation.
        skipped: bool, whether the gradient overflowed in float16, so that nothing was updated.
    """

    loss: float
    nll: float
    tokens: float
    gradient_norm: float = 0.0
    skipped: bool = False


def device_rows(rows: int, length: int, replicas: int, device_tokens: int | None):
    """How many of a batch's rows a device gets, and how many it takes at a time at most.

    Args:
        rows, length: Of the batch, padding included; the length of its longer side.
        replicas: The devices.
        device_tokens: See `TrainStep`.
    """
    rows = -(-rows // replicas)
    return rows, max(1, rows if device_tokens is None else device_tokens // length)


class TrainStep:
    """Updates a model from global batches.

    The loss is the sum over the real target tokens of the whole batch divided by their number over
    all devices and passes, so that how the batch is split makes no difference. A model with float16
    layers is trained with loss scaling; an update whose gradient overflows is left out.

    Args:
        model: From `build_transformer`, made in the strategy's scope.
        optimizer: Made in the strategy's scope; with several devices a `FusedAdam`.
        smoothing: epsilon_ls.
        strategy: The `tf.distribute` strategy.
        jit_compile: Whether to compile forward and backward pass with XLA, once a batch shape.
        device_tokens: Padded tokens a side that a device takes at a time, at most (but a pair at
            least); the gradients of several passes are summed for one update. None for no limit.
        clip_norm: The gradient's norm at most; a longer one is shortened. None, as in the paper,
            for no limit.

    Example:
        >>> step = TrainStep(model, optimizer, 0.1, strategy)
        >>> result = step(source, target_in, target_out)
        >>> result.loss / result.tokens
    """

    def __init__(
        self,
        model,
        optimizer,
        smoothing,
        strategy,
        jit_compile=False,
        device_tokens=None,
        clip_norm=None,
    ):
        self.model, self.optimizer, self.strategy = model, optimizer, strategy
        self.smoothing, self.device_tokens, self.clip_norm = smoothing, device_tokens, clip_norm
        self._weights = [variable.value for variable in model.trainable_variables]
        if strategy.num_replicas_in_sync > 1:
            if not isinstance(optimizer, FusedAdam):
                raise ValueError(
                    "With several devices the optimizer should be a FusedAdam, as paper_optimizer "
                    f"makes it. Received: {optimizer}."
                )
            optimizer.sums_gradients = False  # they are summed here, for their norm
        self.loss_scale = None
        with strategy.scope():
            optimizer.build(model.trainable_variables)
            if any(layer.compute_dtype == "float16" for layer in model.layers):
                self.loss_scale = LossScale()
        self._gradients = tf.function(self._gradients, jit_compile=jit_compile, autograph=False)
        self._update_all, self._update_in_passes, self._measure_all = (
            self._compiled(function, axes)
            for function, axes in ((self._update, 2), (self._update, 3), (self._measure, 2))
        )

    @property
    def traces(self) -> int:
        """How often an update was traced: once, or under several devices once a batch shape."""
        functions = (self._update_all, self._update_in_passes)
        return sum(function.experimental_get_tracing_count() for function in functions)

    def _compiled(self, function, axes: int):
        """A graph of a function of a batch's three arrays and their number of tokens."""
        if self.strategy.num_replicas_in_sync > 1:  # its values have no signature
            return tf.function(function, autograph=False, reduce_retracing=True)
        ids = [tf.TensorSpec([None] * axes, tf.int32)] * 3
        signature = [*ids, tf.TensorSpec([], tf.float32)]
        return tf.function(function, autograph=False, input_signature=signature)

    def __call__(self, source, target_in, target_out) -> StepResult:
        """One update from a global batch, whose rows are shared out evenly over the replicas.

        Args:
            source: int32 `[rows, source_length]`.
            target_in: int32 `[rows, target_length]`, from the begin mark.
            target_out: int32 `[rows, target_length]`, to the end mark.
        """
        length = max(source.shape[1], target_out.shape[1])
        rows, rows_at_a_time = device_rows(
            len(source), length, self.strategy.num_replicas_in_sync, self.device_tokens
        )
        passes = max(1, -(-rows // rows_at_a_time))
        function = self._update_all if passes == 1 else self._update_in_passes
        return self._run(function, passes, source, target_in, target_out)

    def evaluate(self, source, target_in, target_out) -> StepResult:
        """The same numbers without dropout, changing nothing."""
        return self._run(self._measure_all, 1, source, target_in, target_out)

    def _run(self, function, passes: int, *arrays) -> StepResult:
        tokens = np.float32(np.count_nonzero(arrays[-1] != PAD_ID))
        replicas = self.strategy.num_replicas_in_sync
        missing = -len(arrays[0]) % (replicas * passes)  # rows of padding change nothing
        if missing:
            arrays = [np.pad(a, ((0, missing), (0, 0)), constant_values=PAD_ID) for a in arrays]
        if passes > 1:
            arrays = [a.reshape(replicas * passes, -1, a.shape[1]) for a in arrays]
        if replicas > 1:
            arrays = [self._distribute(np.split(array, replicas)) for array in arrays]
        scale = None if self.loss_scale is None else float(self.loss_scale.factor)
        loss, nll, *norm = (float(value) for value in function(*arrays, tf.constant(tokens)))
        if not norm:  # an evaluation
            return StepResult(loss, nll, float(tokens))
        (norm,) = norm
        # With a factor of 1 there is nothing left to lower: then it is the training that diverged.
        skipped = (
            scale is not None and scale > 1 and math.isfinite(loss) and not math.isfinite(norm)
        )
        return StepResult(loss, nll, float(tokens), norm, skipped)

    def _distribute(self, parts):
        return self.strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(parts[context.replica_id_in_sync_group])
        )

    def _update(self, *arrays):
        """Loss, nll and the gradient's norm, after an update."""
        gradients, norm, sums = self.strategy.run(self._global_gradients, arrays)
        norm = self.strategy.experimental_local_results(norm)[0]  # the same in all of them

        def apply():
            self.strategy.run(self._apply, (gradients,))
            return True

        if self.loss_scale is None:
            apply()
        else:
            finite = tf.math.is_finite(norm)
            tf.cond(finite, apply, lambda: False)
            self.loss_scale.adjust(finite)
        return *self._total(sums), norm

    def _measure(self, *arrays):
        """Loss and nll."""
        return self._total(self.strategy.run(self._measured, arrays))

    def _total(self, sums):
        return [self.strategy.reduce("SUM", value, axis=None) for value in sums]

    # What follows runs on each replica, with its part of the batch.

    def _global_gradients(self, source, target_in, target_out, all_tokens):
        """The gradients of the whole batch, their norm, and the sums of this part's losses."""
        batch = (source, target_in, target_out)
        gradients, sums = (
            self._gradients(*batch, all_tokens)
            if len(source.shape) == 2
            else self._gradients_in_passes(batch, all_tokens)
        )
        replica = tf.distribute.get_replica_context()
        if replica.num_replicas_in_sync > 1:
            gradients = replica.all_reduce("SUM", gradients)
        if self.loss_scale is not None:
            gradients = [gradient / self.loss_scale.factor for gradient in gradients]
        norm = tf.linalg.global_norm(gradients)
        if self.clip_norm is not None:
            gradients, _ = tf.clip_by_global_norm(gradients, self.clip_norm, use_norm=norm)
        return gradients, norm, sums

    def _apply(self, gradients):
        self.optimizer.apply(gradients, self.model.trainable_variables)

    def _gradients(self, source, target_in, target_out, all_tokens):
        with tf.GradientTape() as tape:
            logits = self.model([source, target_in], training=True)
            loss, nll = self._losses(target_out, logits)
            mean = tf.math.divide_no_nan(loss, all_tokens)
            if self.loss_scale is not None:
                mean *= self.loss_scale.factor
        gradients = tape.gradient(mean, self._weights)
        # A tied table's gradient comes from a gather and a product: one dense sum of both.
        return [tf.convert_to_tensor(gradient) for gradient in gradients], (loss, nll)

    def _gradients_in_passes(self, batch, all_tokens):
        """As `_gradients`, of `[passes, rows, length]` ids, one pass after the other."""
        zeros = [tf.zeros_like(weight) for weight in self._weights], (tf.constant(0.0),) * 2

        def add(i, sums):
            new = self._gradients(*(array[i] for array in batch), all_tokens)
            return i + 1, tf.nest.map_structure(tf.add, sums, new)

        return tf.while_loop(
            lambda i, _: i < tf.shape(batch[0])[0], add, (0, zeros), parallel_iterations=1
        )[1]

    def _measured(self, source, target_in, target_out, _):
        return self._losses(target_out, self.model([source, target_in], training=False))

    def _losses(self, target_out, logits):
        pair = both_cross_entropies(target_out, logits, self.smoothing)
        return tuple(tf.reduce_sum(losses) for losses in pair)
