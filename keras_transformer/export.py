"""SavedModels that take and return plain text, and loading them.

Signatures (names and shapes are a contract with servers' clients):

- `serving_default`: source string `[batch]` -> translation string `[batch]`, score `[batch]`.
- `nbest`: source string `[batch]` -> translation, score `[batch, beam]`, best first.
- `score_pairs`: source, target string `[batch]` -> log_probability `[batch]`.
- `ids`: source_ids int32 `[batch, length]`, each with its end mark (3), source_lengths int32
  `[batch]`, the mark counted -> ids `[batch, length]` without marks, lengths `[batch]`, score
  `[batch]`. It needs no text ops.

Sources longer than `DecodingConfig.max_source_length` tokens are cut, here as everywhere.
"""

from __future__ import annotations

import json
import os
import pathlib

import tensorflow as tf

from keras_transformer.config import END_ID, PAD_ID, UNK_ID, DecodingConfig
from keras_transformer.decoding.translator import TranslationGraph, Translator
from keras_transformer.text.lines import new_folder
from keras_transformer.text.tokenizer import import_tensorflow_text

_ABOUT = "keras_transformer.json"


class _Served(tf.Module):
    """What an export holds: the graph with the search options fixed."""

    def __init__(self, graph: TranslationGraph):
        super().__init__(name="served")
        self.graph, options = graph, graph.config

        def nbest(source):
            texts, scores = graph.translate(
                source, options.beam_size, options.alpha, options.beam_size
            )
            return {"translation": texts, "score": scores}

        def translate(source):
            texts, scores = graph.translate(source, options.beam_size, options.alpha, 1)
            return {"translation": texts[:, 0], "score": scores[:, 0]}

        def score_pairs(source, target):
            return {"log_probability": graph.score(source, target)}

        def ids(source_ids, source_lengths):
            # Cut to the limit, as text is, with the end mark kept.
            limit = options.max_source_length
            too_long = (source_lengths > limit)[:, None] & (tf.range(limit) == limit - 1)
            source_ids = source_ids[:, :limit]
            width = tf.shape(source_ids)[1]
            source_ids = tf.where(too_long[:, :width], END_ID, source_ids)
            # Servers may pad with anything: the lengths decide what is padding.
            inside = tf.sequence_mask(tf.minimum(source_lengths, limit), width)
            source_ids = tf.where(inside, source_ids, PAD_ID)
            known = (source_ids >= 0) & (source_ids < graph.source_tokenizer.vocab_size)
            source_ids = tf.where(known, source_ids, UNK_ID)
            found = graph.search(source_ids, options.beam_size, options.alpha, 1)
            return {
                "ids": found.ids[:, 0],
                "lengths": found.lengths[:, 0],
                "score": found.scores[:, 0],
            }

        texts = tf.TensorSpec([None], tf.string, name="source")
        self.signatures_ = {
            "serving_default": tf.function(translate, input_signature=[texts], autograph=False),
            "nbest": tf.function(nbest, input_signature=[texts], autograph=False),
            "score_pairs": tf.function(
                score_pairs,
                input_signature=[texts, tf.TensorSpec([None], tf.string, "target")],
                autograph=False,
            ),
            "ids": tf.function(
                ids,
                input_signature=[
                    tf.TensorSpec([None, None], tf.int32, name="source_ids"),
                    tf.TensorSpec([None], tf.int32, name="source_lengths"),
                ],
                autograph=False,
            ),
        }


def next_version(folder: str | os.PathLike) -> pathlib.Path:
    """The folder of the next version below `folder`, as TF Serving counts them: 1, 2, ..."""
    folder = pathlib.Path(folder)
    versions = [int(path.name) for path in folder.glob("*") if path.name.isdecimal()]
    return folder / str(max(versions, default=0) + 1)


def export_saved_model(
    model, vocabularies, config: DecodingConfig, path: str | os.PathLike
) -> None:
    """Writes a SavedModel with the vocabularies inside and the search options fixed.

    Args:
        model: From `build_transformer`, trained.
        vocabularies: It was trained with.
        config: The search options.
        path: A folder that does not exist yet, such as "saved_models/demo/1".

    Raises:
        ValueError: The folder exists, or cannot be written.

    Example:
        >>> export_saved_model(model, vocabularies, DecodingConfig(), "saved_models/demo/1")
    """
    path = pathlib.Path(path)
    if path.exists():
        raise ValueError(f"{path} exists already. Export to a new version's folder beside it.")
    served = _Served(TranslationGraph(model, vocabularies, config))
    with new_folder(path) as folder:
        signatures = {name: f.get_concrete_function() for name, f in served.signatures_.items()}
        tf.saved_model.save(served, str(folder), signatures=signatures)
        about = {"decoding": config.to_dict(), "special_ids": {"pad": PAD_ID, "end": END_ID}}
        (folder / _ABOUT).write_text(json.dumps(about, indent=1))


def load(path: str | os.PathLike) -> Translator:
    """A translator from an export.

    Args:
        path: A version's folder, such as "saved_models/demo/1".

    Raises:
        ValueError: It is no export of this package; or, when called, other options than those
            fixed at export are asked for.

    Example:
        >>> load("saved_models/demo/1")(["the old man reads ."])
    """
    import_tensorflow_text()  # registers the text ops that the graph holds
    path = pathlib.Path(path)
    if not (path / "saved_model.pb").exists():
        raise ValueError(
            f"{path} is not a SavedModel. Expected a version's folder with saved_model.pb in it, "
            "such as saved_models/demo/1."
        )
    if not (path / _ABOUT).exists():
        raise ValueError(f"{path} was not exported by keras_transformer: it has no {_ABOUT}.")
    try:
        config = DecodingConfig.from_dict(json.loads((path / _ABOUT).read_text())["decoding"])
    except (json.JSONDecodeError, KeyError) as error:
        raise ValueError(
            f"{path / _ABOUT} is damaged: {error!r}. Export the model again."
        ) from error
    loaded = tf.saved_model.load(str(path))

    def translate(source, beam_size, alpha, n_best):
        if (beam_size, alpha) != (config.beam_size, config.alpha):
            raise ValueError(
                f"{path} searches with beam_size={config.beam_size}, alpha={config.alpha}, fixed "
                f"at export. Received: beam_size={beam_size}, alpha={alpha}. Export again with "
                "these, or translate from the run directory."
            )
        signature = "serving_default" if n_best == 1 else "nbest"
        found = loaded.signatures[signature](source=source)
        texts, scores = found["translation"], found["score"]
        if n_best == 1:
            return texts[:, None], scores[:, None]
        return texts[:, :n_best], scores[:, :n_best]

    translator = Translator(translate, config)
    translator.loaded = loaded  # keeps the variables alive
    return translator
