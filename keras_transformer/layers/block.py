"""What an encoder layer and a decoder layer have in common: their settings and their parts."""

import keras

from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.residual import Residual


class Block(keras.layers.Layer):
    """Base of `EncoderLayer` and `DecoderLayer`.

    Args:
        num_heads: h.
        d_k: Width of a head's queries and keys.
        d_v: Width of a head's values.
        d_ff: Inner width of the feed-forward sublayer.
        dropout: Rate on sublayer outputs.
        attention_dropout: Rate on attention weights.
        relu_dropout: Rate inside the feed-forward sublayer.
        activation: Of the feed-forward sublayer, by its Keras name.
        norm: "post" or "pre".
        epsilon: Of layer normalisation.
    """

    def __init__(
        self,
        num_heads,
        d_k,
        d_v,
        d_ff,
        dropout=0.0,
        attention_dropout=0.0,
        relu_dropout=0.0,
        activation="relu",
        norm="post",
        epsilon=1e-6,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.settings = {
            "num_heads": num_heads,
            "d_k": d_k,
            "d_v": d_v,
            "d_ff": d_ff,
            "dropout": dropout,
            "attention_dropout": attention_dropout,
            "relu_dropout": relu_dropout,
            "activation": activation,
            "norm": norm,
            "epsilon": epsilon,
        }
        self.feed_forward = FeedForward(
            d_ff, activation, relu_dropout, dtype=self.dtype_policy, name="feed_forward"
        )
        self.feed_forward_residual = self._residual("feed_forward_residual")

    def _attention(self, name):
        s = self.settings
        return MultiHeadAttention(
            s["num_heads"],
            s["d_k"],
            s["d_v"],
            s["attention_dropout"],
            dtype=self.dtype_policy,
            name=name,
        )

    def _residual(self, name):
        s = self.settings
        return Residual(s["norm"], s["dropout"], s["epsilon"], dtype=self.dtype_policy, name=name)

    def _attended(self, residual, attention, x, memory, mask, training):
        """An attention sublayer's output, and its weights; to itself where `memory` is None."""
        weights = None

        def attend(x):
            nonlocal weights
            y, weights = attention(
                x, x if memory is None else memory, mask, training=training, return_weights=True
            )
            return y

        return residual(x, sublayer=attend, training=training), weights

    def _fed_forward(self, x, training):
        return self.feed_forward_residual(
            x, sublayer=lambda x: self.feed_forward(x, training=training), training=training
        )

    def get_config(self):
        return {**super().get_config(), **self.settings}


class Stack(keras.layers.Layer):
    """Base of `Encoder` and `Decoder`: N equal layers, with a last norm where they are "pre".

    Args:
        num_layers: N.
        layer: Keyword arguments of every layer; see `Block`.
    """

    layer_class = None

    def __init__(self, num_layers, layer, **kwargs):
        super().__init__(**kwargs)
        if num_layers < 1:
            raise ValueError(f"`num_layers` should be at least 1. Received: {num_layers}.")
        self.num_layers, self.layer = num_layers, dict(layer)
        self.blocks = [
            self.layer_class(**self.layer, dtype=self.dtype_policy, name=f"layer_{i}")
            for i in range(num_layers)
        ]
        self.final_norm = None
        if self.layer.get("norm") == "pre":
            self.final_norm = keras.layers.LayerNormalization(
                epsilon=self.layer.get("epsilon", 1e-6), dtype=self.dtype_policy, name="final_norm"
            )

    def _build_stack(self, x_shape, *memory_shape):
        for block in self.blocks:
            block.build(x_shape, *memory_shape)
        if self.final_norm is not None:
            self.final_norm.build(x_shape)

    def _run(self, x, *memory, return_weights, **options):
        """The output of all layers; with `return_weights` also the list of their weights."""
        all_weights = []
        for block in self.blocks:
            x, weights = block(x, *memory, **options, return_weights=True)
            all_weights.append(weights)
        x = x if self.final_norm is None else self.final_norm(x)
        return (x, all_weights) if return_weights else x

    def get_config(self):
        return {**super().get_config(), "num_layers": self.num_layers, "layer": self.layer}
