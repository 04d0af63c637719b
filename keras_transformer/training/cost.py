"""What training a model costs: floating point operations and memory (paper sections 4 and 6.1)."""

from __future__ import annotations

from keras_transformer.config import TransformerConfig
from keras_transformer.data.batching import Bucket


def training_flops(config: TransformerConfig, source_length: int, target_length: int) -> int:
    """Floating point operations of a training step on one pair, padding included.

    Matrix products alone, a multiplication and an addition counted as two, and the backward pass as
    twice the forward pass. (The paper multiplies the time by the hardware's sustained speed
    instead, so its figures also hold the work that is no product.)

    Args:
        config: The model.
        source_length, target_length: Tokens, marks included.

    Example:
        >>> training_flops(TransformerConfig.preset("base"), 25, 25) / 25  # a target token
        374...
    """
    d, heads, d_k, d_v = config.d_model, config.num_heads, config.d_k_, config.d_v_

    def attention(queries, keys):
        projections = queries * d * heads * (d_k + d_v) + keys * d * heads * (d_k + d_v)
        return 2 * projections + 2 * queries * keys * heads * (d_k + d_v)

    def feed_forward(length):
        return 4 * length * d * config.d_ff

    source, target = source_length, target_length
    encoder = config.num_layers * (attention(source, source) + feed_forward(source))
    decoder = config.num_decoder_layers_ * (
        attention(target, target) + attention(target, source) + feed_forward(target)
    )
    return 3 * (encoder + decoder + 2 * target * d * config.target_vocab_size_)


def batch_flops(config: TransformerConfig, bucket: Bucket) -> int:
    """As `training_flops`, of a batch of that shape."""
    return bucket.rows * training_flops(config, bucket.source_length, bucket.target_length)


def training_memory(
    config: TransformerConfig,
    parameters: int,
    rows: int,
    source_length: int,
    target_length: int,
    accumulates: bool = False,
) -> int:
    """About how many bytes a device needs in float32: weights, Adam's moments, and one batch.

    Args:
        config: The model.
        parameters: Its weights.
        rows, source_length, target_length: The heaviest batch's shape on a device.
        accumulates: Whether gradients are summed over several passes.
    """
    d, heads, d_k, d_v = config.d_model, config.num_heads, config.d_k_, config.d_v_

    def attention(keys):  # floats kept of a position: projections, weights, and around them
        return 3 * d + 2 * heads * (d_k + d_v) + 3 * heads * keys

    feed_forward = 3 * d + 2 * config.d_ff
    source = config.num_layers * (attention(source_length) + feed_forward)
    target = config.num_decoder_layers_ * (
        attention(target_length) + attention(source_length) + feed_forward
    )
    logits = 2 * config.target_vocab_size_
    batch = rows * (source_length * source + target_length * (target + logits))
    return 4 * (parameters * (5 if accumulates else 4) + batch)
