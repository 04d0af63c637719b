"""What each way of searching stands on: how probable every next token is."""

from __future__ import annotations

import copy

import tensorflow as tf

from keras_transformer.config import BEGIN_ID, PAD_ID, DecodingConfig
from keras_transformer.decoding.constraints import Constraints
from keras_transformer.decoding.room import Room


class NextToken:
    """A model, or several, at work on a batch of sentences.

    Args:
        decoder: An `IncrementalDecoder` or `EnsembleDecoder`.
        source_ids: int32 `[batch, source_length]`, each with its end mark, 0 where they pad.
        config: The search options.
        prefix_ids: int32 `[batch, prefix_length]`, what each result begins with, or None.
        room: For what is kept of each position.

    Attributes:
        limits, max_steps: See `Constraints`.
        context: All that it holds of each sentence, a nest of tensors `[batch, ...]`.
    """

    def __init__(self, decoder, source_ids, config: DecodingConfig, prefix_ids, room: Room):
        self._constraints = Constraints(config, source_ids, prefix_ids, decoder.max_positions)
        self._decoder, self.source_ids, self._config = decoder, source_ids, config
        self._room = room
        self._memory = decoder.encode(source_ids, room.steps or self.max_steps)

    @property
    def limits(self):
        return self._constraints.limits

    @property
    def max_steps(self):
        return self._constraints.max_steps

    @property
    def context(self):
        return self.source_ids, self._constraints.of_sentences, self._memory.of_sentences

    def of(self, context) -> NextToken:
        """The same for other sentences: `context` with other rows."""
        other = copy.copy(self)
        other.source_ids, constraints, memory = context
        other._constraints = self._constraints.of(constraints)
        other._memory = self._memory.of(memory)
        return other

    def log_probs(self, ids, past, step):
        """The log probabilities of what follows, -inf where a token may not come.

        Args:
            ids: int32 `[batch, beam, positions]`, the tokens so far, from the begin mark; there may
                be room for more behind them.
            past: The decoder's keys and values of all but the last of them.
            step: int32 scalar, their number without the mark.

        Returns:
            float32 `[batch, beam, vocab_size]`, the past with this position, and the attention to
            the source.
        """
        logits, past, attention = self._decoder.step(
            tf.gather(ids, step, axis=2), past, self._memory, step, self._room
        )
        log_probs = self._constraints.apply(tf.nn.log_softmax(logits), ids, step)
        return log_probs, past, attention

    def no_coverage(self, beam: int):
        """float32 `[batch, beam, source_length]` zeros; of no length where it is not counted."""
        batch, length = tf.unstack(tf.shape(self.source_ids))
        return tf.zeros((batch, beam, length if self._config.beta else 0))

    def begin(self, beam: int):
        """int32 `[batch, beam, positions]`: the begin marks, and the room there is."""
        batch = tf.shape(self.source_ids)[0]
        ids = tf.fill((batch, beam, 1), BEGIN_ID)
        return tf.pad(ids, ((0, 0), (0, 0), (0, self._room.steps or 0)), constant_values=PAD_ID)
