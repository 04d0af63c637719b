"""Batches of about so many tokens, over a finite set of shapes (paper section 5.1).

Pairs of similar length go together. The batches of an epoch are a function of the data, the seed
and the epoch's number alone, so that training can go on at any batch, on any number of devices.
"""

from __future__ import annotations

import collections
import dataclasses
import functools

import numpy as np

from keras_transformer.data.encoding import EncodedPairs, PairLengths


@dataclasses.dataclass(frozen=True)
class Bucket:
    """A batch shape: so many pairs, padded to so many tokens."""

    rows: int
    source_length: int
    target_length: int

    @property
    def positions(self) -> int:
        return self.rows * (self.source_length + self.target_length)


def choose_boundaries(lengths: np.ndarray, counts: np.ndarray, count: int) -> list[int]:
    """The boundaries that pad least.

    Args:
        lengths: The lengths there are, increasing.
        counts: How many pairs have each.
        count: Boundaries at most.

    Returns:
        Increasing lengths, the last the longest: each pair is padded to the first that is not
        below its own length, and the sum of these is the least possible.
    """
    total = np.concatenate([[0], np.cumsum(counts)])
    # least[j]: cost of the j shortest distinct lengths; cut[b][j]: where its last bucket begins.
    least, cuts = np.full(len(lengths) + 1, np.inf), []
    least[0] = 0.0
    for _ in range(min(count, len(lengths))):
        costs = least[None, :-1] + lengths[:, None] * (total[1:, None] - total[None, :-1])
        costs[np.triu_indices(len(lengths), k=1)] = np.inf
        cut = costs.argmin(axis=1)
        least = np.concatenate([[np.inf], costs[np.arange(len(lengths)), cut]])
        cuts.append(np.concatenate([[0], cut]))
    boundaries, j = [], len(lengths)
    for cut in reversed(cuts):
        boundaries.append(int(lengths[j - 1]))
        j = cut[j]
    return boundaries[::-1]


@dataclasses.dataclass(frozen=True)
class PlannedPairs:
    """Pairs in memory and the batches that they make, in their order.

    Attributes:
        pairs: The pairs.
        plan: Of each batch its bucket and the indices of its pairs.
    """

    pairs: EncodedPairs
    plan: list[tuple[Bucket, np.ndarray]]

    def __len__(self) -> int:
        return len(self.plan)

    def __getitem__(self, i: int):
        """Batch i: its bucket, and source, target_in and target_out as `EncodedPairs.batch`."""
        bucket, indices = self.plan[i]
        shape = (bucket.rows, bucket.source_length, bucket.target_length)
        return bucket, self.pairs.batch(indices, *shape)


class TokenBatches:
    """The training batches of encoded pairs.

    Pairs that are not all in memory come in parts, each a sample of all; an epoch is one after the
    other, and the next epoch shares the pairs out anew. Those in memory are one part.

    Args:
        pairs: The data: `EncodedPairs`, or `PreparedPairs` from disk.
        batch_tokens: Padded tokens a side in a batch, at most.
        num_buckets: Batch shapes at most.
        seed: Of the shuffling.

    Raises:
        ValueError: The budget is below the longest pair.

    Example:
        >>> batches = TokenBatches(pairs, batch_tokens=4096, num_buckets=8, seed=1)
        >>> for bucket, (source, target_in, target_out) in batches.part(0):
        ...     result = step(source, target_in, target_out)
    """

    def __init__(self, pairs, batch_tokens: int, num_buckets: int, seed: int):
        self.pairs, self.seed = pairs, seed
        # What decides the batches, beside the pairs; training can only go on with the same.
        self.settings = {
            "batch_tokens": batch_tokens,
            "num_buckets": num_buckets,
            "seed": seed,
            "pairs": len(pairs),
            "parts": pairs.parts,
        }
        table = pairs.lengths
        lengths = np.flatnonzero(table.pairs)
        if batch_tokens < lengths[-1]:
            raise ValueError(
                f"batch_tokens should be at least {lengths[-1]}, the tokens of the longest pair. "
                f"Received: batch_tokens={batch_tokens}. Raise it, or lower max_length."
            )
        self._boundaries = choose_boundaries(lengths, table.pairs[lengths], num_buckets)
        self.buckets = []
        for boundary in self._boundaries:
            # All that are no longer: a bucket's left-over pairs move to the next.
            source, target = (int(side[: boundary + 1].max()) for side in table[1:])
            self.buckets.append(Bucket(min(batch_tokens // boundary, len(pairs)), source, target))

    def part(self, number: int) -> PlannedPairs:
        """The batches of a part; parts are counted on from one epoch to the next.

        Every pair comes once an epoch. Only the last batch of the longest bucket may be partly
        empty. The first part begins with the heaviest batch, so that too little memory shows at
        once.
        """
        pairs = self.pairs.load(number, self.seed)
        generator = np.random.default_rng([self.seed, number])
        plan, left_over = [], np.zeros(0, np.int64)
        bucket_of_pair = np.searchsorted(self._boundaries, pairs.longer_lengths)
        for b, bucket in enumerate(self.buckets):
            members = np.flatnonzero(bucket_of_pair == b)
            members = generator.permutation(np.concatenate([left_over, members]))
            whole = len(members) // bucket.rows * bucket.rows
            plan += [(bucket, share) for share in members[:whole].reshape(-1, bucket.rows)]
            left_over = members[whole:]
        if len(left_over):
            plan.append((bucket, left_over))
        plan = [plan[i] for i in generator.permutation(len(plan))]
        if number == 0:
            heaviest = max(range(len(plan)), key=lambda i: plan[i][0].positions)
            plan.insert(0, plan.pop(heaviest))
        return PlannedPairs(pairs, plan)

    @functools.cached_property
    def shapes(self) -> collections.Counter[Bucket]:
        """How many batches of each shape the first epoch has; another has about as many."""
        shapes = collections.Counter()
        for number in range(self.pairs.parts):
            shapes += self._shapes(self.pairs.part_lengths(number, self.seed))
        return shapes

    def _shapes(self, lengths: PairLengths) -> collections.Counter[Bucket]:
        """As `part` shares its pairs out, by their numbers alone."""
        shapes, left_over, shorter = collections.Counter(), 0, 0
        for boundary, bucket in zip(self._boundaries, self.buckets, strict=True):
            there = left_over + int(lengths.pairs[shorter : boundary + 1].sum())
            shapes[bucket], left_over = divmod(there, bucket.rows)
            shorter = boundary + 1
        shapes[bucket] += left_over > 0
        return +shapes

    def epochs(self, part: int, batch: int) -> float:
        """How often all pairs were seen before batch `batch` of part `part`."""
        lengths = self.pairs.part_lengths(part, self.seed)
        return (part + batch / self._shapes(lengths).total()) / self.pairs.parts

    def padding(self) -> float:
        """Share of the positions of an epoch that hold no token."""
        positions = sum(bucket.positions * count for bucket, count in self.shapes.items())
        return 1.0 - self.pairs.tokens / positions
