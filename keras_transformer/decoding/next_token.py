"""What each way of searching stands on: how probable every next token is."""

from __future__ import annotations

import tensorflow as tf

from keras_transformer.config import DecodingConfig
from keras_transformer.decoding.constraints import Constraints, never_output


class NextToken:
    """A model, or several, at work on a batch of sentences.

    Args:
        decoder: An `IncrementalDecoder` or `EnsembleDecoder`.
        source_ids: int32 `[batch, source_length]`, each with its end mark, 0 where they pad.
        config: The search options.
        prefix_ids: int32 `[batch, prefix_length]`, what each result begins with, or None.

    Attributes:
        limits, max_steps: See `Constraints`.
    """

    def __init__(self, decoder, source_ids, config: DecodingConfig, prefix_ids=None):
        self._constraints = Constraints(config, source_ids, prefix_ids, decoder.max_positions)
        self.limits, self.max_steps = self._constraints.limits, self._constraints.max_steps
        self._decoder, self._source_ids, self._config = decoder, source_ids, config
        self._memory = decoder.encode(source_ids, self.max_steps)

    def log_probs(self, ids, past, step):
        """The log probabilities of what follows, -inf where a token may not come.

        Args:
            ids: int32 `[batch, beam, step + 1]`, the tokens so far, from the begin mark.
            past: The decoder's keys and values of all but the last of them.
            step: int32 scalar, their number without the mark.

        Returns:
            float32 `[batch, beam, vocab_size]`, the past with this position, and the attention to
            the source.
        """
        logits, past, attention = self._decoder.step(ids[:, :, -1], past, self._memory, step)
        log_probs = tf.nn.log_softmax(logits) + never_output(logits.shape[-1])
        return self._constraints.apply(log_probs, ids, step), past, attention

    def no_coverage(self, beam: int):
        """float32 `[batch, beam, source_length]` zeros; of no length where it is not counted."""
        batch, length = tf.unstack(tf.shape(self._source_ids))
        return tf.zeros((batch, beam, length if self._config.beta else 0))


def growing(past):
    """The shapes of keys and values in a loop: any number of rows and positions."""
    return tf.nest.map_structure(
        lambda tensor: tf.TensorShape([None, tensor.shape[1], None, tensor.shape[3]]), past
    )
