"""The figures of a run: `metrics.jsonl` and TensorBoard."""

from __future__ import annotations

import json
import pathlib

import tensorflow as tf

from keras_transformer.files import write_bytes


class Figures:
    """Appends figures to a run's folder.

    Args:
        run_dir: The folder; gets `metrics.jsonl`, a JSON object a line, and `tensorboard/`.

    Example:
        >>> Figures("runs/demo").record(50, {"loss": 3.2})
    """

    def __init__(self, run_dir: pathlib.Path):
        self._path = pathlib.Path(run_dir) / "metrics.jsonl"
        self._writer = None

    def record(self, step: int, figures: dict) -> None:
        """Appends figures of an update; TensorBoard gets numbers as scalars and words as text."""
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, **figures}, ensure_ascii=False) + "\n")
        if self._writer is None:
            folder = self._path.with_name("tensorboard")
            self._writer = tf.summary.create_file_writer(str(folder))
        with self._writer.as_default(step=step):
            for name, value in figures.items():
                if isinstance(value, (int, float)):
                    tf.summary.scalar(name, value)
                else:
                    tf.summary.text(name, value)
        self._writer.flush()

    def forget_after(self, step: int) -> None:
        """Takes from `metrics.jsonl` what will be recorded again, and a line cut in half."""
        kept = []
        if not self._path.exists():
            return
        for line in self._path.read_text(encoding="utf-8").split("\n"):
            try:
                if json.loads(line)["step"] <= step:
                    kept.append(line + "\n")
            except (json.JSONDecodeError, KeyError, TypeError):
                continue
        write_bytes(self._path, "".join(kept).encode("utf-8"))
