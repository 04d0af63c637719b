"""Sentence pairs as ids, in flat arrays, with a filter that reports what it dropped."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Iterable

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
        flat: int32 (where memory counts and they fit, uint16), all ids one after another.
        starts: int64, one more than there are sequences.
    """

    flat: np.ndarray
    starts: np.ndarray

    @functools.cached_property
    def lengths(self) -> np.ndarray:
        return np.diff(self.starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, i) -> np.ndarray:
        return self.flat[self.starts[i] : self.starts[i + 1]]

    def padded(self, indices: np.ndarray, length: int) -> np.ndarray:
        """The sequences of these indices, int32 `[indices, length]`, ends filled with padding."""
        positions = np.arange(length)
        places = np.minimum(self.starts[indices, None] + positions, len(self.flat) - 1)
        is_token = positions < self.lengths[indices, None]
        return np.where(is_token, self.flat[places], np.int32(PAD_ID))

    @classmethod
    def join(cls, parts: Iterable[Sequences]) -> Sequences:
        """The sequences of several, one after the other."""
        parts = list(parts)
        lengths = np.concatenate([np.zeros(1, np.int64), *(part.lengths for part in parts)])
        flat = np.concatenate([part.flat for part in parts] or [np.zeros(0, np.int32)])
        return cls(flat, np.cumsum(lengths))

    def take(self, indices: np.ndarray) -> Sequences:
        """The sequences of these indices, in their order."""
        lengths = self.lengths[indices]
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        places = np.repeat(self.starts[indices] - starts[:-1], lengths)
        return Sequences(self.flat[places + np.arange(starts[-1])], starts)


def encode_lines(lines: list[str], tokenizer) -> Sequences:
    """Tokenises lines; neither begin nor end marks are added."""
    parts = []
    for start in range(0, len(lines), _CHUNK):
        ragged = tokenizer.tokenize(tf.constant(lines[start : start + _CHUNK]))
        ids = ragged.flat_values.numpy().astype(np.int32)
        parts.append(Sequences(ids, ragged.row_splits.numpy()))
    return Sequences.join(parts)


class PairLengths(typing.NamedTuple):
    """How long pairs are, by the length of their longer side, marks included.

    Attributes:
        pairs, source, target: int64 arrays; at i the number of pairs whose longer side has i
            tokens, and the tokens of the longest source and of the longest target among them.

    Example:
        >>> PairLengths.count(np.array([2, 3]), np.array([3, 1])).source
        array([0, 0, 0, 3])
    """

    pairs: np.ndarray
    source: np.ndarray
    target: np.ndarray

    @classmethod
    def count(cls, source_lengths: np.ndarray, target_lengths: np.ndarray) -> PairLengths:
        """Of pairs with these lengths."""
        longer = np.maximum(source_lengths, target_lengths)
        size = int(longer.max(initial=0)) + 1
        table = cls(*np.zeros([3, size], np.int64))
        np.add.at(table.pairs, longer, 1)
        np.maximum.at(table.source, longer, source_lengths)
        np.maximum.at(table.target, longer, target_lengths)
        return table

    @classmethod
    def join(cls, tables: Iterable[PairLengths]) -> PairLengths:
        """Of all pairs of several tables."""
        tables = list(tables)
        joined = cls(*np.zeros([3, max(len(table.pairs) for table in tables)], np.int64))
        for table in tables:
            size = len(table.pairs)
            joined.pairs[:size] += table.pairs
            for side, other in zip(joined[1:], table[1:], strict=True):
                np.maximum(side[:size], other, out=side[:size])
        return joined


@dataclasses.dataclass(frozen=True)
class EncodedPairs:
    """Training pairs as ids.

    Attributes:
        source, target: Equally many sequences, without begin and end marks.
        dropped: How many pairs were left out, by reason.
        left_out: How many were before, by cleaning.
        name, fingerprint: Of the text that they come from.
    """

    source: Sequences
    target: Sequences
    dropped: dict[str, int]
    left_out: dict[str, int] = dataclasses.field(default_factory=dict)
    name: str = ""
    fingerprint: str = ""

    def __len__(self) -> int:
        return len(self.source)

    # Both sides gain one mark: the source its end, the target its begin (in) or end (out).
    @property
    def source_lengths(self) -> np.ndarray:
        return self.source.lengths + 1

    @property
    def target_lengths(self) -> np.ndarray:
        return self.target.lengths + 1

    @property
    def longer_lengths(self) -> np.ndarray:
        return np.maximum(self.source_lengths, self.target_lengths)

    # What `TokenBatches` asks of its pairs: these are all in memory, in one part.
    parts: typing.ClassVar[int] = 1

    @functools.cached_property
    def lengths(self) -> PairLengths:
        return PairLengths.count(self.source_lengths, self.target_lengths)

    @property
    def tokens(self) -> int:
        """Of both sides, marks included."""
        return int(self.source_lengths.sum() + self.target_lengths.sum())

    def part_lengths(self, number: int, seed: int) -> PairLengths:
        return self.lengths

    def load(self, number: int, seed: int) -> EncodedPairs:
        return self

    def batch(self, indices: np.ndarray, rows: int, source_length: int, target_length: int):
        """Padded arrays of some pairs.

        Args:
            indices: Which pairs, at most `rows` of them; rows beyond them are all padding.
            rows, source_length, target_length: The batch's shape.

        Returns:
            int32 arrays source `[rows, source_length]` (with end mark), target_in
            `[rows, target_length]` (from the begin mark) and target_out (to the end mark).
        """
        indices, every = np.asarray(indices, np.int64), np.arange(len(indices))
        source = np.full((rows, source_length), PAD_ID, np.int32)
        target_in = np.full((rows, target_length), PAD_ID, np.int32)
        target_out = np.full((rows, target_length), PAD_ID, np.int32)
        source[every] = self.source.padded(indices, source_length)
        source[every, self.source.lengths[indices]] = END_ID
        target_out[every] = self.target.padded(indices, target_length)
        target_in[every, 0] = BEGIN_ID
        target_in[every, 1:] = target_out[every, :-1]
        target_out[every, self.target.lengths[indices]] = END_ID
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
    keep, dropped = fitting_pairs(source, target, max_length)
    if not len(keep):
        raise ValueError(none_left(text.name, len(text), dropped, max_length))
    if len(keep) < len(text):
        source, target = source.take(keep), target.take(keep)
    dropped = {reason: count for reason, count in dropped.items() if count}
    return EncodedPairs(source, target, dropped, {}, text.name, text.fingerprint)


def fitting_pairs(source: Sequences, target: Sequences, max_length: int):
    """Which pairs are neither empty nor too long, and how many are, by reason."""
    empty = (source.lengths == 0) | (target.lengths == 0)
    too_long = (np.maximum(source.lengths, target.lengths) + 1 > max_length) & ~empty
    dropped = {"empty": int(empty.sum()), "too long": int(too_long.sum())}
    return np.flatnonzero(~(empty | too_long)), dropped


def none_left(name: str, count: int, dropped: dict[str, int], max_length: int) -> str:
    """Says that no pair is fit to train on."""
    return (
        f"{name}: no pair is left of {count}: {dropped}. Raise max_length (now {max_length}) or "
        "check the files."
    )
