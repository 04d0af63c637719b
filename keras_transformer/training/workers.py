"""The processes that train together, as far as they need to agree (paper section 5.2).

All of them do the same updates. The first one, the chief, alone writes: what the others need of its
disk it sends them, so that they share no file system.
"""

from __future__ import annotations

import json
import pathlib
import tempfile
from collections.abc import Iterable

import numpy as np
import tensorflow as tf

_CHUNK = 2**26  # bytes sent at a time


class Workers:
    """What one process knows of the others.

    Args:
        strategy: The `tf.distribute` strategy; all but MultiWorkerMirroredStrategy have one process
            (a TPUStrategy's hosts are its own affair).

    Example:
        >>> workers = Workers(strategy)
        >>> if workers.any(stop):
        ...     ...  # all of them stop after the same update
    """

    def __init__(self, strategy: tf.distribute.Strategy):
        self._strategy = strategy
        self.count, self.is_chief = 1, True
        if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
            resolver = strategy.cluster_resolver
            jobs = resolver.cluster_spec().as_dict()
            self.count = sum(len(jobs.get(job, ())) for job in ("chief", "worker"))
            first = "chief" if "chief" in jobs else "worker"
            self.is_chief = (resolver.task_type, resolver.task_id) == (first, 0)
        self._sum = tf.function(
            lambda value: strategy.reduce("SUM", value, axis=None), reduce_retracing=True
        )

    def total(self, array: np.ndarray) -> np.ndarray:
        """The sum of every process's array; the shapes are equal, the dtype a number's."""
        if self.count == 1:
            return array
        per_worker = self._strategy.num_replicas_in_sync // self.count
        values = self._strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(
                array if context.replica_id_in_sync_group % per_worker == 0 else 0 * array
            )
        )
        return self._sum(values).numpy()

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process."""
        return bool(self.total(np.array(int(flag), np.int32)) > 0)

    def from_chief(self, data: bytes = b"") -> bytes:
        """The chief's bytes, in every process."""
        if self.count == 1:
            return data
        data = data if self.is_chief else b""
        length = int(self.total(np.array(len(data), np.int64)))
        parts = []
        for start in range(0, length, _CHUNK):
            part = np.zeros(min(_CHUNK, length - start), np.uint8)
            if self.is_chief:
                part[:] = np.frombuffer(data, np.uint8)[start : start + len(part)]
            words = np.pad(part, (0, -len(part) % 4)).view(np.int32)
            parts.append(self.total(words).tobytes()[: len(part)])
        return b"".join(parts)

    def folder_from_chief(self, folder: pathlib.Path) -> pathlib.Path:
        """A folder with the chief's files: on the chief the folder itself, else a temporary one."""
        if self.count == 1:
            return folder
        paths = sorted(folder.iterdir()) if self.is_chief else []
        names = json.loads(self.from_chief(json.dumps([path.name for path in paths]).encode()))
        copy = folder if self.is_chief else pathlib.Path(tempfile.mkdtemp())
        for name in names:
            data = self.from_chief((folder / name).read_bytes() if self.is_chief else b"")
            if not self.is_chief:
                (copy / name).write_bytes(data)
        return copy

    def variables_from_chief(self, variables: Iterable[tf.Variable]) -> None:
        """Sets all variables to the chief's values, bit for bit."""
        if self.count == 1:
            return
        for variable in variables:
            value = variable.read_value().numpy()
            sent = np.frombuffer(self.from_chief(value.tobytes()), value.dtype)
            if not self.is_chief:
                variable.assign(sent.reshape(value.shape))
