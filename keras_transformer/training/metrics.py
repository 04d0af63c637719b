"""Metrics over real tokens, for `model.compile`."""

import keras
from keras import ops

from keras_transformer.training.loss import smoothed_cross_entropy, token_weights


class _TokenMean(keras.metrics.Metric):
    """A mean over all real tokens since the last reset."""

    def __init__(self, name, **kwargs):
        super().__init__(name=name, **kwargs)
        self.total = self.add_weight(shape=(), initializer="zeros", name="total")
        self.count = self.add_weight(shape=(), initializer="zeros", name="count")

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch: ids int32 `[batch, length]`, logits `[batch, length, vocab_size]`."""
        weights = token_weights(y_true)
        if sample_weight is not None:
            sample_weight = ops.cast(sample_weight, "float32")
            if len(sample_weight.shape) == 1:
                sample_weight = sample_weight[:, None]
            weights = weights * sample_weight
        self.total.assign_add(ops.sum(self._values(y_true, y_pred) * weights))
        self.count.assign_add(ops.sum(weights))

    def result(self):
        return ops.divide_no_nan(self.total, self.count)


@keras.saving.register_keras_serializable("keras_transformer")
class TokenAccuracy(_TokenMean):
    """Share of the real tokens whose most probable prediction is right."""

    def __init__(self, name="token_accuracy", **kwargs):
        super().__init__(name=name, **kwargs)

    def _values(self, y_true, y_pred):
        predicted = ops.argmax(y_pred, axis=-1)
        return ops.cast(ops.equal(predicted, ops.cast(y_true, predicted.dtype)), "float32")


@keras.saving.register_keras_serializable("keras_transformer")
class Perplexity(_TokenMean):
    """exp of the mean cross entropy of a real token, without smoothing."""

    def __init__(self, name="perplexity", **kwargs):
        super().__init__(name=name, **kwargs)

    def _values(self, y_true, y_pred):
        return smoothed_cross_entropy(y_true, y_pred)

    def result(self):
        return ops.exp(super().result())
