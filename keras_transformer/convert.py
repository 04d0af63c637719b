"""A trained model as a CTranslate2 model: a C++ engine for translation servers.

It needs the package ctranslate2 (`pip install 'keras_transformer[ctranslate2]'`), and serves here
as an independent judge of our decoding as well.
"""

from __future__ import annotations

import os
import pathlib

import keras
import numpy as np
from keras import ops

from keras_transformer.config import BEGIN_ID, END_ID, UNK_ID
from keras_transformer.files import check_new, new_folder
from keras_transformer.layers.position import sinusoids
from keras_transformer.model import token_embedding
from keras_transformer.text.vocabulary import Vocabularies


def to_ctranslate2(
    model: keras.Model,
    vocabularies: Vocabularies,
    path: str | os.PathLike,
    quantization: str | None = None,
    max_positions: int = 1024,
) -> None:
    """Writes a CTranslate2 model, with the vocabulary's own files in its folder `vocab`.

    It takes and gives pieces as `Tokenizer.pieces` has them, without marks.

    Args:
        model: From `build_transformer`, trained.
        vocabularies: It was trained with.
        path: A folder that does not exist yet.
        quantization: As CTranslate2 names it, such as "int8" or "float16"; None for float32.
        max_positions: Positions that it can take at most.

    Raises:
        ValueError: The folder exists, or the model has what CTranslate2 has not.
        ImportError: The package ctranslate2 is missing.

    Example:
        >>> model, vocabularies, _ = load_run("runs/demo")
        >>> to_ctranslate2(model, vocabularies, "demo-ct2")
        >>> pieces = vocabularies.source.pieces([5, 7, 3])
        >>> ctranslate2.Translator("demo-ct2").translate_batch([pieces])
    """
    specs = _import_specs()
    path = pathlib.Path(path)
    check_new(path)
    encoder, decoder = model.get_layer("encoder"), model.get_layer("decoder")
    settings = encoder.blocks[0].settings
    spec = specs.TransformerSpec.from_config(
        (encoder.num_layers, decoder.num_layers),
        settings["num_heads"],
        pre_norm=settings["norm"] == "pre",
        activation=_activation(specs, model, settings),
    )
    names = {layer.name for layer in model.layers}
    for side, part, stack in (("source", spec.encoder, encoder), ("target", spec.decoder, decoder)):
        table = token_embedding(model, side).table.numpy()
        embeddings = part.embeddings[0] if side == "source" else part.embeddings
        embeddings.weight = table
        part.position_encodings.encodings = _positions(
            model.get_layer(f"{side}_positions"), table.shape[1], max_positions
        )
        if stack.final_norm is not None:
            _norm(part.layer_norm, stack.final_norm)
        for layer_spec, block in zip(part.layer, stack.blocks, strict=True):
            _layer(layer_spec, block)
        if side == "target":
            projection = (
                model.get_layer("projection").kernel.numpy().T if "projection" in names else table
            )
            part.projection.weight = projection
    _register(spec, vocabularies, settings)
    spec.validate()
    spec.optimize(quantization=quantization)
    with new_folder(path) as folder:
        spec.save(str(folder))
        vocabularies.save(folder / "vocab")


def _import_specs():
    try:
        from ctranslate2 import specs
    except ImportError as error:
        raise ImportError(
            "CTranslate2 models need the package ctranslate2: pip install ctranslate2"
        ) from error
    return specs


def _activation(specs, model, settings):
    """CTranslate2's name of the activation, once all else is known to fit."""
    known = {
        "relu": specs.common_spec.Activation.RELU,
        "gelu": specs.common_spec.Activation.GELU,
        "silu": specs.common_spec.Activation.SWISH,
        "swish": specs.common_spec.Activation.SWISH,
    }
    width = model.get_layer("encoder").output.shape[-1]
    unfit = {
        "attention_window": model.get_layer("masks").window is not None,
        f"activation {settings['activation']!r}": settings["activation"] not in known,
        "d_k or d_v that is not d_model / num_heads": not (
            settings["d_k"] == settings["d_v"] == width / settings["num_heads"]
        ),
    }
    for what, is_so in unfit.items():
        if is_so:
            raise ValueError(f"CTranslate2 has no {what}, which this model has.")
    return known[settings["activation"]]


def _positions(layer, d_model: int, max_positions: int) -> np.ndarray:
    if layer.kind == "learned":
        return layer.table.numpy()
    positions = sinusoids(ops.arange(max_positions), d_model, layer.kind == "interleaved")
    return np.array(positions)


def _layer(spec, block) -> None:
    own = block.self_attention
    _dense(spec.self_attention.linear[0], own.query, own.key, own.value)
    _dense(spec.self_attention.linear[1], own.output_projection)
    _norm(spec.self_attention.layer_norm, block.self_attention_residual.layer_norm)
    if hasattr(block, "memory_attention"):
        other = block.memory_attention
        _dense(spec.attention.linear[0], other.query)
        _dense(spec.attention.linear[1], other.key, other.value)
        _dense(spec.attention.linear[2], other.output_projection)
        _norm(spec.attention.layer_norm, block.memory_attention_residual.layer_norm)
    _dense(spec.ffn.linear_0, block.feed_forward.inner)
    _dense(spec.ffn.linear_1, block.feed_forward.outer)
    _norm(spec.ffn.layer_norm, block.feed_forward_residual.layer_norm)


def _dense(spec, *layers) -> None:
    """One product of one layer or of several side by side."""
    spec.weight = np.concatenate([layer.kernel.numpy().T for layer in layers])
    if layers[0].use_bias:
        spec.bias = np.concatenate([layer.bias.numpy() for layer in layers])


def _norm(spec, layer) -> None:
    spec.gamma, spec.beta = layer.gamma.numpy(), layer.beta.numpy()


def _register(spec, vocabularies: Vocabularies, settings) -> None:
    def pieces(tokenizer):
        return [tokenizer.id_to_piece(i) for i in range(tokenizer.vocab_size)]

    source, target = pieces(vocabularies.source), pieces(vocabularies.target)
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.unk_token = target[UNK_ID]
    spec.config.bos_token = spec.config.decoder_start_token = target[BEGIN_ID]
    spec.config.eos_token = target[END_ID]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = settings["epsilon"]
