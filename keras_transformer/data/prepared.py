"""A corpus that was tokenised to disk: read in parts, so that memory does not grow with it.

The folder, which `keras-transformer prepare` writes (`prepare.py`):

    prepared.json      written last: what is in the folder, and how it was made
    vocab/             the vocabulary
    train-00000-of-00064.tfrecord ...

Each record is a `tf.train.Example` of a pair, with the ids of either side, without begin and end
marks, as the int64 features "source" and "target". Every shard is a random sample of the corpus.
"""

from __future__ import annotations

import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib

import numpy as np
import tensorflow as tf

from keras_transformer.data.encoding import EncodedPairs, PairLengths, Sequences
from keras_transformer.text.vocabulary import Vocabularies

INDEX, VERSION = "prepared.json", 1
_PART_PAIRS = 500_000  # in memory at a time, about; and as many are read ahead
_FEATURES = {side: tf.io.RaggedFeature(tf.int64) for side in ("source", "target")}


class PreparedPairs:
    """The pairs of a prepared corpus, for `TokenBatches`.

    Args:
        folder: What `prepare` wrote.

    Attributes:
        name, fingerprint: Of the corpus, the way it was prepared included.
        dropped: How many pairs were left out as empty or too long.
        left_out: How many were by cleaning.
        settings: How it was prepared.
        digest, version: SHA-256 of its text, cleaned, and the text's `PairStream.version`.
        parts: Into how many parts an epoch is divided.

    Raises:
        ValueError: The folder is no prepared corpus, is not finished, or lacks something.

    Example:
        >>> pairs = PreparedPairs("prepared/ende")
        >>> batches = TokenBatches(pairs, batch_tokens=25_000, num_buckets=8, seed=1)
    """

    def __init__(self, folder: str | os.PathLike):
        self.folder = pathlib.Path(folder)
        index = _read_index(self.folder)
        try:
            self._shards, self.settings = index["shards"], index["settings"]
            self.name, self.fingerprint = index["name"], index["fingerprint"]
            self.digest, self.version = index["text_digest"], index["text_version"]
            self.dropped, self.left_out = index["dropped"], index["left_out"]
            self.tokens = index["source_tokens"] + index["target_tokens"]
            self._pairs = sum(shard["pairs"] for shard in self._shards)
            sizes = [(self.folder / shard["file"], shard["bytes"]) for shard in self._shards]
        except (KeyError, TypeError) as error:
            raise ValueError(_unusable(self.folder / INDEX, f"it lacks {error}")) from error
        self.parts = max(1, min(-(-self._pairs // _PART_PAIRS), len(self._shards)))
        self._reader = concurrent.futures.ThreadPoolExecutor(1)
        self._ahead: dict = {}  # the part that is being read, by number and seed
        for path, size in sizes:
            found = path.stat().st_size if path.exists() else None
            if found != size:
                raise ValueError(_damaged(path, f"expected {size} bytes, found {found}"))

    def __len__(self) -> int:
        return self._pairs

    @functools.cached_property
    def vocabularies(self) -> Vocabularies:
        """The vocabulary that the ids are of.

        Raises:
            ValueError: It is missing or another.
        """
        vocabularies = Vocabularies.load(self.folder / "vocab")
        if vocabularies.fingerprint != self.settings["vocabulary"]:
            what = "it is another vocabulary than the corpus was prepared with"
            raise ValueError(_damaged(self.folder / "vocab", what))
        return vocabularies

    @functools.cached_property
    def lengths(self) -> PairLengths:
        return self._lengths_of(self._shards)

    def part_lengths(self, number: int, seed: int) -> PairLengths:
        """As `lengths`, of a part."""
        return self._lengths_of(self._part(number, seed))

    def load(self, number: int, seed: int) -> EncodedPairs:
        """The pairs of a part; the next one is read meanwhile.

        Parts are counted on from one epoch to the next, which shares the shards out anew.

        Raises:
            ValueError: A shard is not what it was when it was written.
        """
        if self.parts == 1:
            return self._whole
        ready = self._ahead.pop((number, seed), None)
        pairs = self._read(self._part(number, seed)) if ready is None else ready.result()
        following = self._part(number + 1, seed)
        self._ahead = {(number + 1, seed): self._reader.submit(self._read, following)}
        return pairs

    @functools.cached_property
    def _whole(self) -> EncodedPairs:
        return self._read(self._shards)

    def _part(self, number: int, seed: int) -> list[dict]:
        epoch, place = divmod(number, self.parts)
        order = np.random.default_rng([seed, epoch]).permutation(len(self._shards))
        return [self._shards[i] for i in np.array_split(order, self.parts)[place]]

    def _lengths_of(self, shards: list[dict]) -> PairLengths:
        return PairLengths.join(PairLengths(*map(np.array, shard["lengths"])) for shard in shards)

    def _read(self, shards: list[dict]) -> EncodedPairs:
        paths = []
        for shard in shards:
            paths.append(self.folder / shard["file"])
            if (found := file_digest(paths[-1])) != shard["sha256"]:
                what = f"expected SHA-256 {shard['sha256']}, found {found}"
                raise ValueError(_damaged(paths[-1], what))
        records = tf.data.TFRecordDataset(list(map(str, paths))).batch(4096)
        sides: tuple[list, list] = ([], [])
        for batch in records.map(lambda batch: tf.io.parse_example(batch, _FEATURES), 2):
            for side, name in zip(sides, _FEATURES, strict=True):
                ids = batch[name].flat_values.numpy()
                kind = np.uint16 if ids.max(initial=0) < 2**16 else np.int32
                side.append(Sequences(ids.astype(kind), batch[name].row_splits.numpy()))
        return EncodedPairs(*map(Sequences.join, sides), dropped={})


def file_digest(path: pathlib.Path) -> str:
    """SHA-256 of a file, in hex.

    Raises:
        ValueError: It cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while block := file.read(2**20):
                digest.update(block)
    except OSError as error:
        raise ValueError(_damaged(path, error.strerror)) from error
    return digest.hexdigest()


def _read_index(folder: pathlib.Path) -> dict:
    try:
        index = json.loads((folder / INDEX).read_bytes())
        if index["version"] != VERSION:
            raise ValueError(f"version {index['version']}, where this program knows {VERSION}")
    except FileNotFoundError:
        raise ValueError(
            f"{folder} is no prepared corpus, or not a finished one: it has no {INDEX}. Make it "
            "with keras-transformer prepare; the same command goes on where it was stopped."
        ) from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ValueError(_unusable(folder / INDEX, str(error))) from error
    return index


def _damaged(path: pathlib.Path, what: str) -> str:
    return (
        f"{path} is not as it was written: {what}. Copy it again, or remove the folder and prepare "
        "the corpus again."
    )


def _unusable(path: pathlib.Path, what: str) -> str:
    return f"{path} cannot be used: {what}. Remove the folder and prepare the corpus again."
