"""Label-smoothed cross entropy (paper section 5.4): a sum over tokens, by their number."""

import keras
import tensorflow as tf
from keras import ops

from keras_transformer.config import PAD_ID


def token_weights(target_ids):
    """float32 1 where `[batch, length]` ids hold a token, 0 where they pad."""
    return ops.cast(ops.not_equal(target_ids, PAD_ID), "float32")


def smoothed_cross_entropy(target_ids, logits, smoothing=0.0):
    """Cross entropy of each token, in nats.

    The right token has the probability 1 - smoothing and the others share the rest evenly, as in
    the paper's code; the paper itself does not say.

    Args:
        target_ids: int `[batch, length]`.
        logits: `[batch, length, vocab_size]`, taken as float32.
        smoothing: epsilon_ls.

    Returns:
        float32 `[batch, length]`; 0 where the target is padding.
    """
    return both_cross_entropies(target_ids, logits, smoothing)[0]


def both_cross_entropies(target_ids, logits, smoothing):
    """As `smoothed_cross_entropy`; a pair of it and of the same without smoothing.

    The second has no gradient: it is for reporting.
    """
    vocab_size = logits.shape[-1]
    pair = _both(
        tf.reshape(ops.cast(logits, "float32"), (-1, vocab_size)),
        tf.reshape(target_ids, (-1,)),
        float(smoothing),
    )
    weights = token_weights(target_ids)
    return tuple(tf.reshape(loss, tf.shape(target_ids)) * weights for loss in pair)


def _both(logits, target_ids, smoothing):
    """float32 `[tokens]` twice, of `[tokens, vocab_size]`, in few passes over the logits.

    With one probability for all tokens but the right one, -sum_k q_k log p_k needs no target
    matrix, and its gradient is p minus that probability, corrected at the right token. TensorFlow's
    own kernel for this (softmax and cross entropy in one) is five times slower on a CPU, and its
    gradient of picking the right logit is a matrix of zeros and a slow scatter.
    """
    share = smoothing / (logits.shape[-1] - 1)  # of each token but the right one
    surplus = 1.0 - smoothing - share  # of the right one over the others
    places = tf.stack([tf.range(tf.shape(target_ids)[0]), tf.cast(target_ids, tf.int32)], axis=1)

    @tf.custom_gradient
    def cross_entropies(logits):
        largest = tf.reduce_max(logits, axis=-1)
        exponentials = tf.exp(logits - largest[:, None])
        total = tf.reduce_sum(exponentials, axis=-1)
        log_total = tf.math.log(total) + largest
        right = tf.gather_nd(logits, places)
        plain = smoothed = log_total - right
        if smoothing:
            smoothed = log_total - surplus * right - share * tf.reduce_sum(logits, axis=-1)

        def backward(upstream, _):
            down = exponentials * (upstream / total)[:, None]
            if smoothing:
                down -= (share * upstream)[:, None]
            return tf.tensor_scatter_nd_sub(down, places, surplus * upstream)

        return (smoothed, plain), backward

    return cross_entropies(logits)


@keras.saving.register_keras_serializable("keras_transformer")
class SmoothedCrossEntropy(keras.losses.Loss):
    """The loss for `model.compile`: the mean over the real tokens of a batch.

    Of the global batch: under a `tf.distribute` strategy Keras sums the replicas' gradients, and
    each replica gives its share, its sum over the tokens by the number of all replicas' tokens, so
    that the mean is exact however unevenly the tokens are spread.

    Args:
        smoothing: epsilon_ls, 0.1 in the paper.

    Example:
        >>> model.compile(optimizer, loss=SmoothedCrossEntropy(0.1))
    """

    def __init__(self, smoothing=0.1, name="smoothed_cross_entropy"):
        super().__init__(name=name)
        if not 0.0 <= smoothing < 1.0:
            raise ValueError(f"`smoothing` should be from 0 to below 1. Received: {smoothing}.")
        self.smoothing = smoothing

    def __call__(self, y_true, y_pred, sample_weight=None):
        """Sum over tokens / number of tokens (all replicas'); 0 when there is none.

        Args:
            y_true: int32 `[batch, length]`, 0 where it pads.
            y_pred: Logits `[batch, length, vocab_size]`.
            sample_weight: `[batch]` or `[batch, length]`, times each token's loss and count.

        Returns:
            A float32 scalar.
        """
        losses = smoothed_cross_entropy(y_true, y_pred, self.smoothing)
        weights = token_weights(y_true)
        if sample_weight is not None:
            sample_weight = ops.cast(sample_weight, "float32")
            if len(sample_weight.shape) == 1:
                sample_weight = sample_weight[:, None]
            losses, weights = losses * sample_weight, weights * sample_weight
        return ops.divide_no_nan(ops.sum(losses), _over_replicas(ops.sum(weights)))

    def call(self, y_true, y_pred):
        return smoothed_cross_entropy(y_true, y_pred, self.smoothing)

    def get_config(self):
        return {"name": self.name, "smoothing": self.smoothing}


def _over_replicas(value):
    """The sum of a scalar over the replicas of the strategy at work; itself where there is one."""
    replica = tf.distribute.get_replica_context()
    if replica is None or replica.num_replicas_in_sync == 1:
        return value
    return replica.all_reduce("SUM", value)
