"""Positions (paper section 3.5): sinusoids for any length, or a learned table."""

import math

import keras
from keras import ops


def sinusoids(positions, d_model, interleaved=True):
    """Sinusoidal position vectors, float32, computed for the positions at hand.

    Args:
        positions: `[length]`, from 0.
        d_model: Width, even.
        interleaved: As the paper writes them: PE(p, 2i) = sin(p / 10000^(2i/d)) and
            PE(p, 2i+1) = cos of the same. Otherwise as tensor2tensor has them: all sines, then
            all cosines, with 10000^(i/(d/2-1)).

    Returns:
        float32 `[length, d_model]`.

    Example:
        >>> sinusoids(keras.ops.arange(50), 512).shape
        TensorShape([50, 512])
    """
    half = d_model // 2
    steps = half if interleaved else max(half - 1, 1)
    rates = ops.exp(ops.arange(half, dtype="float32") * (-math.log(10000.0) / steps))
    angles = ops.cast(positions, "float32")[:, None] * rates
    sines, cosines = ops.sin(angles), ops.cos(angles)
    if interleaved:
        return ops.reshape(ops.stack([sines, cosines], axis=-1), (-1, d_model))
    return ops.concatenate([sines, cosines], axis=-1)


@keras.saving.register_keras_serializable("keras_transformer")
class PositionalEncoding(keras.layers.Layer):
    """Adds position vectors to token vectors.

    Args:
        kind: "interleaved", "concatenated" or "learned".
        max_positions: Rows of the learned table.

    Example:
        >>> PositionalEncoding()(keras.ops.zeros((1, 50, 512))).shape
        TensorShape([1, 50, 512])
    """

    def __init__(self, kind="interleaved", max_positions=1024, **kwargs):
        super().__init__(**kwargs)
        if kind not in ("interleaved", "concatenated", "learned"):
            raise ValueError(
                "`kind` should be 'interleaved', 'concatenated' or 'learned'. "
                f"Received: kind={kind!r}."
            )
        self.kind, self.max_positions = kind, max_positions
        self.table = None

    def build(self, x_shape):
        d_model = x_shape[-1]
        if self.kind == "learned":
            self.table = self.add_weight(
                shape=(self.max_positions, d_model),
                initializer=keras.initializers.RandomNormal(stddev=d_model**-0.5),
                autocast=False,  # rows are cast when taken
                name="table",
            )
        elif d_model % 2:
            raise ValueError(
                f"Sinusoidal positions need an even width. Received: d_model={d_model}."
            )

    def call(self, x, start=0):
        """Adds the vectors of positions `start`, `start + 1`, ...

        Args:
            x: `[batch, length, d_model]`.
            start: Position of the first vector, an int or int32 scalar; a decoding step's number.

        Returns:
            `[batch, length, d_model]`.

        Raises:
            ValueError: A learned table is shorter than `x` (where the length is known; a graph of
                unknown length fails when it runs, with TensorFlow's InvalidArgumentError).
        """
        positions = start + ops.arange(ops.shape(x)[1])
        if self.kind == "learned":
            vectors = self._learned(x, positions, start)
        else:
            vectors = sinusoids(positions, x.shape[-1], self.kind == "interleaved")
        return x + ops.cast(vectors, x.dtype)

    def _learned(self, x, positions, start):
        length = x.shape[1]
        if isinstance(start, int) and length is not None and start + length > self.max_positions:
            raise ValueError(
                f"A sequence of {start + length} tokens is longer than the learned table of "
                f"max_positions={self.max_positions}. Cut it, train with a larger max_positions, "
                "or use sinusoidal positions, which know no limit."
            )
        return ops.take(self.table.value, positions, axis=0)

    def compute_output_shape(self, x_shape):
        return x_shape

    def get_config(self):
        return {**super().get_config(), "kind": self.kind, "max_positions": self.max_positions}
