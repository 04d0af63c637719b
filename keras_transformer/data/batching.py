"""Batches of about so many tokens, over a finite set of shapes (paper section 5.1).

Pairs of similar length go together. The batches of an epoch are a function of the data, the seed
and the epoch's number alone, so that training can go on at any batch, on any number of devices.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from keras_transformer.data.encoding import EncodedPairs


@dataclasses.dataclass(frozen=True)
class Bucket:
    """A batch shape: so many pairs, padded to so many tokens."""

    rows: int
    source_length: int
    target_length: int

    @property
    def positions(self) -> int:
        return self.rows * (self.source_length + self.target_length)


def choose_boundaries(lengths: np.ndarray, count: int) -> list[int]:
    """The boundaries that pad least.

    Args:
        lengths: Of all pairs.
        count: Boundaries at most.

    Returns:
        Increasing lengths, the last the longest: each pair is padded to the first that is not
        below its own length, and the sum of these is the least possible.
    """
    values, counts = np.unique(lengths, return_counts=True)
    total = np.concatenate([[0], np.cumsum(counts)])
    # least[j]: cost of the j shortest distinct lengths; cut[b][j]: where its last bucket begins.
    least, cuts = np.full(len(values) + 1, np.inf), []
    least[0] = 0.0
    for _ in range(min(count, len(values))):
        costs = least[None, :-1] + values[:, None] * (total[1:, None] - total[None, :-1])
        costs[np.triu_indices(len(values), k=1)] = np.inf
        cut = costs.argmin(axis=1)
        least = np.concatenate([[np.inf], costs[np.arange(len(values)), cut]])
        cuts.append(np.concatenate([[0], cut]))
    boundaries, j = [], len(values)
    for cut in reversed(cuts):
        boundaries.append(int(values[j - 1]))
        j = cut[j]
    return boundaries[::-1]


class TokenBatches:
    """The training batches of encoded pairs.

    Args:
        pairs: The data.
        batch_tokens: Padded tokens a side in a batch, at most.
        num_buckets: Batch shapes at most.
        seed: Of the shuffling.

    Raises:
        ValueError: The budget is below the longest pair.

    Example:
        >>> batches = TokenBatches(pairs, batch_tokens=4096, num_buckets=8, seed=1)
        >>> for bucket, indices in batches.epoch(0):
        ...     source, target_in, target_out = batches.arrays(bucket, indices)
    """

    def __init__(self, pairs: EncodedPairs, batch_tokens, num_buckets, seed):
        self.pairs, self.seed = pairs, seed
        # What decides the batches, beside the pairs; training can only go on with the same.
        self.settings = {
            "batch_tokens": batch_tokens,
            "num_buckets": num_buckets,
            "seed": seed,
            "pairs": len(pairs),
        }
        lengths = np.maximum(pairs.source_lengths, pairs.target_lengths)
        if batch_tokens < lengths.max():
            raise ValueError(
                f"batch_tokens should be at least {lengths.max()}, the tokens of the longest pair. "
                f"Received: batch_tokens={batch_tokens}. Raise it, or lower max_length."
            )
        boundaries = choose_boundaries(lengths, num_buckets)
        members = np.searchsorted(boundaries, lengths)
        self._members = [np.flatnonzero(members == b) for b in range(len(boundaries))]
        self.buckets = []
        source_length = target_length = 0
        for boundary, indices in zip(boundaries, self._members, strict=True):
            # Never shorter than the bucket before, whose left-over pairs move here.
            source_length = max(source_length, int(pairs.source_lengths[indices].max()))
            target_length = max(target_length, int(pairs.target_lengths[indices].max()))
            rows = min(batch_tokens // boundary, len(pairs))
            self.buckets.append(Bucket(rows, source_length, target_length))

    def epoch(self, epoch: int) -> list[tuple[Bucket, np.ndarray]]:
        """The batches of an epoch in their order, each a bucket and the indices of its pairs.

        Every pair comes once. Only the last batch of the longest bucket may be partly empty. The
        first epoch begins with the heaviest batch, so that too little memory shows at once.
        """
        generator = np.random.default_rng([self.seed, epoch])
        plan, left_over = [], np.zeros(0, np.int64)
        for bucket, members in zip(self.buckets, self._members, strict=True):
            members = generator.permutation(np.concatenate([left_over, members]))
            whole = len(members) // bucket.rows * bucket.rows
            plan += [(bucket, part) for part in members[:whole].reshape(-1, bucket.rows)]
            left_over = members[whole:]
        if len(left_over):
            plan.append((bucket, left_over))
        plan = [plan[i] for i in generator.permutation(len(plan))]
        if epoch == 0:
            heaviest = max(range(len(plan)), key=lambda i: plan[i][0].positions)
            plan.insert(0, plan.pop(heaviest))
        return plan

    def arrays(self, bucket: Bucket, indices: np.ndarray):
        """source, target_in and target_out of a batch; see `EncodedPairs.batch`."""
        return self.pairs.batch(indices, bucket.rows, bucket.source_length, bucket.target_length)

    @functools.cached_property
    def plan_shapes(self) -> list[Bucket]:
        """The first epoch's batch shapes in order; every epoch has as many of each."""
        return [bucket for bucket, _ in self.epoch(0)]

    def padding(self) -> float:
        """Share of the positions of an epoch that hold no token."""
        positions = sum(bucket.positions for bucket in self.plan_shapes)
        return 1.0 - (self.pairs.source_lengths.sum() + self.pairs.target_lengths.sum()) / positions
