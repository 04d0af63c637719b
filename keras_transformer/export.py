"""SavedModels that take and return plain text, and loading them.

Signatures (names and shapes are a contract with servers' clients):

- `serving_default`: source string `[batch]` -> translation string `[batch]`, score `[batch]`.
- `nbest`: source string `[batch]` -> translation, score `[batch, beam]`, best first.
- `score_pairs`: source, target string `[batch]` -> log_probability `[batch]`.
- `ids`: source_ids int32 `[batch, length]`, each with its end mark (3), source_lengths int32
  `[batch]`, the mark counted -> ids `[batch, length]` without marks, lengths `[batch]`, score
  `[batch]`. An export of this one alone needs no text ops, and TensorFlow alone to load.

Sources longer than `DecodingConfig.max_source_length` tokens are cut, here as everywhere.
"""

from __future__ import annotations

import functools
import json
import os
import pathlib

import numpy as np
import tensorflow as tf

from keras_transformer.config import END_ID, PAD_ID, UNK_ID, DecodingConfig
from keras_transformer.decoding.graph import TranslationGraph
from keras_transformer.decoding.translator import Translator
from keras_transformer.files import new_folder
from keras_transformer.storage import StoredWeights
from keras_transformer.text.tokenizer import import_tensorflow_text
from keras_transformer.warmup import write_warmup_requests

_ABOUT = "keras_transformer.json"
_WARM_UP_SIZES, _WARM_UP_TEXT = (1, 8), "This is a sentence to warm up with."


class _Served(tf.Module):
    """What an export holds: the graph with the search options fixed."""

    def __init__(
        self, graph: TranslationGraph, config: DecodingConfig, storage: str, ids_only: bool
    ):
        super().__init__(name="served")
        # (Tracked, it would take the tokenizers along.)
        self.graph = None if ids_only else graph
        self.weights = StoredWeights(graph.models, storage)
        # (Of weights in fewer bits a second copy would be the larger part.)
        self.laid_out = graph.lay_out() if storage == "float32" else []

        @functools.cache  # traced once for all the signatures that want it
        def searching(n_best):
            return tf.function(
                self._stored(lambda ids: graph.search(ids, config, n_best)),
                input_signature=[tf.TensorSpec([None, None], tf.int32)],
                autograph=False,
            )

        def nbest(source):
            found = searching(config.beam_size)(graph.source_ids(source))
            return {"translation": graph.texts(found), "score": found.scores}

        def translate(source):
            found = searching(1)(graph.source_ids(source))
            return {"translation": graph.texts(found)[:, 0], "score": found.scores[:, 0]}

        def score_pairs(source, target):
            return {"log_probability": self._stored(graph.score)(source, target)}

        def ids(source_ids, source_lengths):
            found = searching(1)(_served_ids(source_ids, source_lengths, graph))
            return {
                "ids": found.ids[:, 0],
                "lengths": found.lengths[:, 0],
                "score": found.scores[:, 0],
            }

        source, target = (tf.TensorSpec([None], tf.string, name) for name in ("source", "target"))
        source_ids = tf.TensorSpec([None, None], tf.int32, name="source_ids")
        source_lengths = tf.TensorSpec([None], tf.int32, name="source_lengths")
        self.signatures_ = {
            name: tf.function(function, input_signature=inputs, autograph=False)
            for name, function, inputs in (
                ("serving_default", translate, [source]),
                ("nbest", nbest, [source]),
                ("score_pairs", score_pairs, [source, target]),
                ("ids", ids, [source_ids, source_lengths]),
            )
            if name == "ids" or not ids_only
        }
        if not ids_only:  # no signature, since it is for `load` alone
            self.source_lengths = tf.function(
                graph.source_lengths, input_signature=[source], autograph=False
            )

    def _stored(self, function):
        """`function`, computing with the weights as they are stored."""

        @functools.wraps(function)
        def call(*inputs):
            with self.weights.scope():
                return function(*inputs)

        return call


def _served_ids(source_ids, source_lengths, graph: TranslationGraph):
    """Ids as the search wants them, of what a server's client may send."""
    # Cut to the limit, as text is, with the end mark kept.
    limit = graph.max_source_length
    too_long = (source_lengths > limit)[:, None] & (tf.range(limit) == limit - 1)
    source_ids = source_ids[:, :limit]
    width = tf.shape(source_ids)[1]
    source_ids = tf.where(too_long[:, :width], END_ID, source_ids)
    # Servers may pad with anything: the lengths decide what is padding.
    inside = tf.sequence_mask(tf.minimum(source_lengths, limit), width)
    source_ids = tf.where(inside, source_ids, PAD_ID)
    known = (source_ids >= 0) & (source_ids < graph.source_tokenizer.vocab_size)
    return tf.where(known, source_ids, UNK_ID)


def _requests(size: int) -> list[tuple[str, dict]]:
    """A request for each signature, of `size` sentences."""
    texts, ids = [_WARM_UP_TEXT] * size, [[UNK_ID, END_ID]] * size
    return [
        ("serving_default", {"source": texts}),
        ("nbest", {"source": texts}),
        ("score_pairs", {"source": texts, "target": texts}),
        (
            "ids",
            {
                "source_ids": np.array(ids, np.int32),
                "source_lengths": np.full(size, 2, np.int32),
            },
        ),
    ]


def next_version(folder: str | os.PathLike) -> pathlib.Path:
    """The folder of the next version below `folder`, as TF Serving counts them: 1, 2, ..."""
    folder = pathlib.Path(folder)
    versions = [int(path.name) for path in folder.glob("*") if path.name.isdecimal()]
    return folder / str(max(versions, default=0) + 1)


def export_saved_model(
    model,
    vocabularies,
    config: DecodingConfig,
    path: str | os.PathLike,
    weights: str = "float32",
    ids_only: bool = False,
) -> None:
    """Writes a SavedModel with the vocabularies inside and the search options fixed.

    Args:
        model: From `build_transformer`, trained; or a list of several for an ensemble.
        vocabularies: They were trained with.
        config: The search options.
        path: A folder that does not exist yet, such as "saved_models/demo/1".
        weights: How they are stored: "float32", "float16" or "int8". It computes in float32.
        ids_only: Whether it takes and gives ids alone, and needs no text ops.

    Raises:
        ValueError: The folder exists, or cannot be written; or the storage is unknown.

    Example:
        >>> export_saved_model(model, vocabularies, DecodingConfig(), "saved_models/demo/1")
    """
    path = pathlib.Path(path)
    if path.exists():
        raise ValueError(f"{path} exists already. Export to a new version's folder beside it.")
    graph = TranslationGraph(model, vocabularies, config.max_source_length)
    config = config.replace(max_source_length=graph.max_source_length)
    served = _Served(graph, config, weights, ids_only)
    with new_folder(path) as folder:
        signatures = {name: f.get_concrete_function() for name, f in served.signatures_.items()}
        tf.saved_model.save(served, str(folder), signatures=signatures)
        requests = [r for size in _WARM_UP_SIZES for r in _requests(size) if r[0] in signatures]
        write_warmup_requests(folder, requests)
        about = {
            "decoding": config.to_dict(),
            "special_ids": {"pad": PAD_ID, "end": END_ID},
            "weights": weights,
        }
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
    path = pathlib.Path(path)
    config = DecodingConfig.from_dict(_about(path)["decoding"])
    loaded = _loaded(path)
    if "serving_default" not in loaded.signatures:
        raise ValueError(
            f"{path} takes ids alone, no text. Export without --ids-only to translate with it."
        )
    return Translator(_ExportBackend(loaded, config, path), config)


def describe(path: str | os.PathLike) -> dict:
    """What an export holds, ready for JSON: the search options, special ids, and signatures.

    Raises:
        ValueError: It is no export of this package.

    Example:
        >>> describe("saved_models/demo/1")["decoding"]["beam_size"]
        4
    """
    path = pathlib.Path(path)
    about = _about(path)

    def shapes(specs):
        return {
            name: f"{spec.dtype.name} {spec.shape.as_list()}".replace("None", "any")
            for name, spec in sorted(specs.items())
        }

    signatures = {
        name: {
            "inputs": shapes(function.structured_input_signature[1]),
            "outputs": shapes(function.structured_outputs),
        }
        for name, function in _loaded(path).signatures.items()
    }
    return {**about, "signatures": signatures}


def _about(path: pathlib.Path) -> dict:
    """What was written beside a SavedModel."""
    if not (path / "saved_model.pb").exists():
        raise ValueError(
            f"{path} is not a SavedModel. Expected a version's folder with saved_model.pb in it, "
            "such as saved_models/demo/1."
        )
    if not (path / _ABOUT).exists():
        raise ValueError(f"{path} was not exported by keras_transformer: it has no {_ABOUT}.")
    try:
        about = json.loads((path / _ABOUT).read_text())
        DecodingConfig.from_dict(about["decoding"])
        return about
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path / _ABOUT} is damaged: {error!r}. Export the model again."
        ) from error


def _loaded(path: pathlib.Path):
    import_tensorflow_text()  # registers the text ops that the graph holds
    try:
        return tf.saved_model.load(str(path))
    except (OSError, IndexError, KeyError, tf.errors.OpError) as error:
        raise ValueError(
            f"{path} is damaged: {str(error).strip().splitlines()[0]} Export the model again."
        ) from error


class _ExportBackend:
    """Runs a loaded export; see `Translator`."""

    def __init__(self, loaded, config: DecodingConfig, path: pathlib.Path):
        self._loaded, self._config, self._path = loaded, config, path

    def check(self, config: DecodingConfig, n_best: int, has_prefixes: bool) -> None:
        """Raises ValueError where other options are asked for than were fixed at export."""
        fixed = self._config.to_dict()
        other = [
            f"{name}={value!r} (here {fixed[name]!r})"
            for name, value in config.replace(batch_size=self._config.batch_size).to_dict().items()
            if value != fixed[name]
        ]
        if has_prefixes:
            raise ValueError("An export takes no prefixes: translate from the run's folder.")
        if n_best > self._config.beam_size:
            other.append(f"n_best={n_best} (at most beam_size={self._config.beam_size})")
        if other:
            raise ValueError(
                f"The search options of {self._path} were fixed at export. Received: "
                f"{', '.join(other)}. Export again with these, or translate from the run's folder."
            )

    def translate(self, source, config: DecodingConfig, n_best: int, prefix=None):
        signature = "serving_default" if n_best == 1 else "nbest"
        found = self._loaded.signatures[signature](source=source)
        texts, scores = found["translation"], found["score"]
        if n_best == 1:
            return texts[:, None], scores[:, None]
        return texts[:, :n_best], scores[:, :n_best]

    def score(self, source, target):
        found = self._loaded.signatures["score_pairs"](source=source, target=target)
        return found["log_probability"]

    def source_lengths(self, source):
        return self._loaded.source_lengths(source)
