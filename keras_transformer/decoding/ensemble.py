"""Several models that search as one."""

from __future__ import annotations

import math
import typing

import tensorflow as tf

from keras_transformer.decoding.incremental import IncrementalDecoder, Memory, Past
from keras_transformer.decoding.room import GROWING, Room


def mean_log_probs(logits):
    """The logarithm of several models' mean probability, of their logits `[..., vocab_size]`."""
    log_probs = [tf.nn.log_softmax(one) for one in logits]
    if len(log_probs) == 1:
        return log_probs[0]
    return tf.reduce_logsumexp(tf.stack(log_probs), axis=0) - math.log(len(log_probs))


class EnsembleMemory(typing.NamedTuple):
    """Each model's memory; see `Memory`."""

    memories: list[Memory]

    @property
    def of_sentences(self):
        return [memory.of_sentences for memory in self.memories]

    def of(self, sentences) -> EnsembleMemory:
        pairs = zip(self.memories, sentences, strict=True)
        return EnsembleMemory([memory.of(its) for memory, its in pairs])


class EnsembleDecoder:
    """Several models as one, whose probabilities are the mean of theirs.

    Args:
        decoders: `IncrementalDecoder`s of models with the same vocabularies.

    Example:
        >>> decoder = EnsembleDecoder([IncrementalDecoder(model) for model in models])
    """

    def __init__(self, decoders: list[IncrementalDecoder]):
        self._decoders = decoders
        known = [d.max_positions for d in decoders if d.max_positions is not None]
        self.max_positions = min(known, default=None)

    def lay_out(self) -> list[tf.Variable]:
        """See `IncrementalDecoder.lay_out`."""
        return [laid_out for decoder in self._decoders for laid_out in decoder.lay_out()]

    def encode(self, source_ids, max_steps) -> EnsembleMemory:
        """Each model's memory; see `IncrementalDecoder.encode`."""
        return EnsembleMemory([d.encode(source_ids, max_steps) for d in self._decoders])

    def empty_past(self, batch, beam: int, room: Room = GROWING) -> list[Past]:
        """What each model keeps before the first step."""
        return [decoder.empty_past(batch, beam, room) for decoder in self._decoders]

    def step(self, ids, past, memory: EnsembleMemory, index, room: Room = GROWING):
        """See `IncrementalDecoder.step`; the logits are the logarithm of the mean probability."""
        parts = zip(self._decoders, past, memory.memories, strict=True)
        logits, pasts, attentions = zip(
            *(decoder.step(ids, one, its, index, room) for decoder, one, its in parts), strict=True
        )
        return mean_log_probs(logits), list(pasts), tf.add_n(attentions) / len(attentions)

    @staticmethod
    def reorder(past: list[Past], beams) -> list[Past]:
        """See `IncrementalDecoder.reorder`."""
        return [IncrementalDecoder.reorder(one, beams) for one in past]
