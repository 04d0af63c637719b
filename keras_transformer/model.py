"""The Transformer (paper section 3, figure 1): a functional Keras model from a configuration."""

from __future__ import annotations

import keras

from keras_transformer.config import TransformerConfig
from keras_transformer.layers.decoder import Decoder
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.embedding import OutputProjection, TokenEmbedding
from keras_transformer.layers.encoder import Encoder
from keras_transformer.layers.masks import AttentionMasks
from keras_transformer.layers.position import PositionalEncoding


def build_transformer(
    config: TransformerConfig, dtype_policy: str | None = None, name: str = "transformer"
) -> keras.Model:
    """Builds the model.

    Args:
        config: Its dimensions and variants.
        dtype_policy: Keras dtype policy of all layers, such as "mixed_bfloat16"; the global one
            (`keras.config.dtype_policy()`, float32 unless changed) if None.
        name: The Keras model's name.

    Returns:
        A plain functional `keras.Model`: `[source_ids, target_ids]`, int32
        `[batch, source_length]` and `[batch, target_length]` (0 is padding; the target begins
        with the begin mark), to float32 logits `[batch, target_length, target_vocab_size]`; those
        at position i are of the token after target_ids[i].

    Example:
        >>> model = build_transformer(TransformerConfig.preset("tiny", vocab_size=8000))
        >>> model([[[5, 7, 3]], [[2, 9]]]).shape
        TensorShape([1, 2, 8000])
    """
    layer = {
        "num_heads": config.num_heads,
        "d_k": config.d_k_,
        "d_v": config.d_v_,
        "d_ff": config.d_ff,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "relu_dropout": config.relu_dropout,
        "activation": config.activation,
        "norm": config.norm,
        "epsilon": config.layer_norm_epsilon,
    }
    source_ids = keras.Input((None,), dtype="int32", name="source_ids")
    target_ids = keras.Input((None,), dtype="int32", name="target_ids")
    source_mask, target_mask, memory_mask = AttentionMasks(config.attention_window, name="masks")(
        source_ids, target_ids
    )
    if config.tie_embeddings == "all":
        source_embedding = target_embedding = TokenEmbedding(
            config.vocab_size, config.d_model, dtype=dtype_policy, name="embedding"
        )
    else:
        source_embedding = TokenEmbedding(
            config.vocab_size, config.d_model, dtype=dtype_policy, name="source_embedding"
        )
        target_embedding = TokenEmbedding(
            config.target_vocab_size_, config.d_model, dtype=dtype_policy, name="target_embedding"
        )

    def embed(ids, embedding, side):
        positions = PositionalEncoding(
            config.positions, config.max_positions, dtype=dtype_policy, name=f"{side}_positions"
        )
        dropout = Dropout(config.dropout, dtype=dtype_policy, name=f"{side}_dropout")
        return dropout(positions(embedding(ids)))

    memory = Encoder(config.num_layers, layer, dtype=dtype_policy, name="encoder")(
        embed(source_ids, source_embedding, "source"), source_mask
    )
    decoded = Decoder(config.num_decoder_layers_, layer, dtype=dtype_policy, name="decoder")(
        embed(target_ids, target_embedding, "target"), memory, target_mask, memory_mask
    )
    if config.tie_embeddings == "none":
        logits = OutputProjection(config.target_vocab_size_, dtype=dtype_policy, name="projection")(
            decoded
        )
    else:
        logits = target_embedding(decoded, reverse=True)
    return keras.Model([source_ids, target_ids], logits, name=name)


def token_embedding(model: keras.Model, side: str):
    """The `TokenEmbedding` of a model's "source" or "target" ids, which may share one.

    Args:
        model: From `build_transformer`.
        side: "source" or "target".
    """
    shared = any(layer.name == "embedding" for layer in model.layers)
    return model.get_layer("embedding" if shared else f"{side}_embedding")
