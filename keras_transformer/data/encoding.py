"""Sentence pairs as ids, in flat arrays, with a filter that reports what it dropped."""

from __future__ import annotations

import collections
import dataclasses

import numpy as np
import tensorflow as tf

from keras_transformer.config import BEGIN_ID, END_ID, PAD_ID
from keras_transformer.data.corpus import ParallelText
from keras_transformer.text.vocabulary import Vocabularies

_CHUNK = 10_000  # lines tokenised at a time


@dataclasses.dataclass(frozen=True)
class Sequences:
    """Many sequences of ids in one array: sequence i is flat[starts[i] : starts[i + 1]].

    Attributes:
        flat: int32, all ids one after another.
        starts: int64, one more than there are sequences.
    """

    flat: np.ndarray
    starts: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, i) -> np.ndarray:
        return self.flat[self.starts[i] : self.starts[i + 1]]

    def take(self, indices: np.ndarray) -> Sequences:
        """The sequences of these indices, in their order."""
        parts = [self[i] for i in indices]
        starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
        return Sequences(np.concatenate([np.zeros(0, np.int32), *parts]), starts)


def encode_lines(lines: list[str], tokenizer) -> Sequences:
    """Tokenises lines; neither begin nor end marks are added."""
    flats, lengths = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    for start in range(0, len(lines), _CHUNK):
        ragged = tokenizer.tokenize(tf.constant(lines[start : start + _CHUNK]))
        flats.append(ragged.flat_values.numpy().astype(np.int32))
        lengths.append(ragged.row_lengths().numpy())
    starts = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)
    return Sequences(np.concatenate(flats), starts)


@dataclasses.dataclass(frozen=True)
class EncodedPairs:
    """Training pairs as ids.

    Attributes:
        source, target: Equally many sequences, without begin and end marks.
        dropped: How many pairs were left out, by reason.
    """

    source: Sequences
    target: Sequences
    dropped: dict[str, int]

    def __len__(self) -> int:
        return len(self.source)

    # Both sides gain one mark: the source its end, the target its begin (in) or end (out).
    @property
    def source_lengths(self) -> np.ndarray:
        return self.source.lengths + 1

    @property
    def target_lengths(self) -> np.ndarray:
        return self.target.lengths + 1

    def batch(self, indices: np.ndarray, rows: int, source_length: int, target_length: int):
        """Padded arrays of some pairs.

        Args:
            indices: Which pairs, at most `rows` of them; rows beyond them are all padding.
            rows, source_length, target_length: The batch's shape.

        Returns:
            int32 arrays source `[rows, source_length]` (with end mark), target_in
            `[rows, target_length]` (from the begin mark) and target_out (to the end mark).
        """
        source = np.full((rows, source_length), PAD_ID, np.int32)
        target_in = np.full((rows, target_length), PAD_ID, np.int32)
        target_out = np.full((rows, target_length), PAD_ID, np.int32)
        for row, i in enumerate(indices):
            ids = self.source[i]
            source[row, : len(ids)] = ids
            source[row, len(ids)] = END_ID
            ids = self.target[i]
            target_in[row, 0] = BEGIN_ID
            target_in[row, 1 : len(ids) + 1] = ids
            target_out[row, : len(ids)] = ids
            target_out[row, len(ids)] = END_ID
        return source, target_in, target_out


def encode_pairs(text: ParallelText, vocabularies: Vocabularies, max_length: int) -> EncodedPairs:
    """Tokenises pairs and leaves out those that are empty or too long.

    Args:
        text: The pairs.
        vocabularies: For either side.
        max_length: Tokens a side at most, end mark included.

    Raises:
        ValueError: No pair is left.

    Example:
        >>> pairs = encode_pairs(text, vocabularies, max_length=256)
        >>> pairs.dropped
        {'empty': 2, 'too long': 17}
    """
    source = encode_lines(text.source, vocabularies.source)
    target = encode_lines(text.target, vocabularies.target)
    empty = (source.lengths == 0) | (target.lengths == 0)
    too_long = (np.maximum(source.lengths, target.lengths) + 1 > max_length) & ~empty
    dropped = collections.Counter({"empty": int(empty.sum()), "too long": int(too_long.sum())})
    keep = np.flatnonzero(~(empty | too_long))
    if not len(keep):
        raise ValueError(
            f"{text.name}: no pair is left of {len(text)}: {dict(dropped)}. "
            f"Raise max_length (now {max_length}) or check the files."
        )
    if len(keep) < len(text):
        source, target = source.take(keep), target.take(keep)
    return EncodedPairs(source, target, {k: n for k, n in dropped.items() if n})
