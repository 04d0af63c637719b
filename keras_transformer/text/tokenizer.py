"""What every tokenizer is: text to ids and back, inside the graph.

All kinds (SentencePiece, WordPiece, tensor2tensor's subwords) share one documented normalisation,
made of ops that the stock TensorFlow Serving carries:

  1. bytes that are not UTF-8 become U+FFFD, the replacement character;
  2. Unicode NFC, so that "e" + combining acute and the single "é" are the same text;
  3. a literal U+2581, the mark that both vocabularies use for a space, becomes a space.

Nothing else is changed: case, runs of spaces, leading and trailing spaces, tabs and line ends
inside a string all come back from `detokenize(tokenize(x))`.
"""

from __future__ import annotations

import abc
import hashlib
import os
import pathlib
import unicodedata
from collections.abc import Iterable, Sequence

import tensorflow as tf

from keras_transformer.config import BEGIN_ID, END_ID, PAD_ID, UNK_ID
from keras_transformer.files import write_bytes

SPACE_MARK = "\u2581"
UNKNOWN_SURFACE = "\u2047"  # "⁇", what an unknown piece looks like in detokenised text
SPECIAL_IDS = {"pad": PAD_ID, "unknown": UNK_ID, "begin": BEGIN_ID, "end": END_ID}


def import_tensorflow_text():
    """The `tensorflow_text` module; importing it registers the ops that a loaded SavedModel needs.

    Raises:
        ImportError: It is missing, or does not fit the installed TensorFlow; the message names the
            remedy.
    """
    try:
        import tensorflow_text
    except (ImportError, tf.errors.NotFoundError) as error:
        raise ImportError(
            "tokenising text needs tensorflow-text, which is missing or does not fit TensorFlow "
            f'{tf.__version__}: pip install "tensorflow-text>=2.21.1,<2.22" ({error})'
        ) from error
    return tensorflow_text


def normalize_text(text: str) -> str:
    """The normalisation of one Python string: what `normalize_tensor` does inside the graph."""
    text = text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates: not text
    return unicodedata.normalize("NFC", text).replace(SPACE_MARK, " ")


def normalize_tensor(strings: tf.Tensor) -> tf.Tensor:
    """The normalisation of a string tensor `[batch]`, in the graph."""
    strings = tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8", errors="replace")
    strings = import_tensorflow_text().normalize_utf8(strings, "NFC")
    return tf.strings.regex_replace(strings, SPACE_MARK, " ")


class Tokenizer(tf.Module, abc.ABC):
    """Text to ids and back. Ids are int32: pad 0, unknown 1, begin 2, end 3, then the pieces.

    Its methods work eagerly, inside a `tf.function` and in an exported SavedModel (keep the
    tokenizer as an attribute of the exported `tf.Module`). Made by `learn_tokenizer` or
    `load_tokenizer`, not by hand.

    Attributes:
        kind: "bpe", "wordpiece" or "t2t".
        vocab_size: Number of ids, special ones included.
        fingerprint: SHA-256, in hex, of the vocabulary's content.

    Example:
        >>> tokenizer = load_tokenizer("runs/demo/vocab/shared.model")
        >>> ids = tokenizer.tokenize(["A man rides a horse."])
        >>> tokenizer.detokenize(ids).numpy()
        array([b'A man rides a horse.'], dtype=object)
    """

    kind: str
    file_suffix: str

    def __init__(self, content: bytes, pieces: Sequence[str]):
        super().__init__()
        self._content = content
        self._pieces = tuple(pieces)
        self.vocab_size = len(self._pieces)
        self.fingerprint = hashlib.sha256(content).hexdigest()

    def tokenize(self, strings) -> tf.RaggedTensor:
        """Splits texts into pieces.

        Args:
            strings: `[batch]` strings: a tensor, or a list of `str` or `bytes`.

        Returns:
            Ids, a ragged int32 tensor `[batch, (length)]` without begin and end; an empty text has
            length 0.

        Raises:
            ValueError: The input is not one-dimensional.
        """
        strings = tf.convert_to_tensor(strings, tf.string)
        if strings.shape.rank != 1:
            raise ValueError(
                f"tokenize expects strings of shape [batch]; received shape {strings.shape}. "
                "Put a single text into a list"
            )
        return self._tokenize(normalize_tensor(strings))

    def detokenize(self, ids) -> tf.Tensor:
        """Joins pieces into texts.

        Pad, begin and end ids give nothing; the unknown id, and any id outside the vocabulary,
        gives "⁇".

        Args:
            ids: `[batch, (length)]` integers: a ragged tensor, a list of lists, or a dense tensor
                `[batch, length]`.

        Returns:
            UTF-8 strings `[batch]`.

        Raises:
            ValueError: The input is not two-dimensional.
        """
        return self._detokenize(self._checked_ids(ids))

    def id_to_piece(self, index: int) -> str:
        """The piece with this id, as the vocabulary spells it (U+2581 is a space).

        Raises:
            ValueError: The id is outside the vocabulary.
        """
        if not 0 <= index < self.vocab_size:
            raise ValueError(
                f"id {index} is outside the vocabulary: expected 0 to {self.vocab_size - 1}"
            )
        return self._pieces[index]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The pieces with these ids, to look at; `ids` is one sentence's."""
        return [self.id_to_piece(int(index)) for index in ids]

    def save(self, path: str | os.PathLike) -> None:
        """Writes the vocabulary to one file, which `load_tokenizer` reads."""
        write_bytes(path, self._content)

    @abc.abstractmethod
    def _tokenize(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Normalised strings `[batch]` to ids `[batch, (length)]`."""

    @abc.abstractmethod
    def _detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Ids `[batch, (length)]`, all inside the vocabulary, to strings `[batch]`."""

    def _checked_ids(self, ids) -> tf.RaggedTensor:
        """Any accepted form of ids as a ragged int32 tensor, those out of range made unknown."""
        if isinstance(ids, (list, tuple)):
            ids = tf.ragged.constant(ids, tf.int32, ragged_rank=1)
        elif not isinstance(ids, tf.RaggedTensor):
            ids = tf.convert_to_tensor(ids)
            if ids.shape.rank == 2:
                ids = tf.RaggedTensor.from_tensor(ids)
        if ids.shape.rank != 2:
            raise ValueError(
                f"detokenize expects ids of shape [batch, length]; received shape {ids.shape}. "
                "Put a single sentence's ids into a list"
            )
        ids = ids.with_row_splits_dtype(tf.int64)
        known = (ids.flat_values >= 0) & (ids.flat_values < self.vocab_size)
        flat = tf.where(known, tf.cast(ids.flat_values, tf.int32), UNK_ID)
        return ids.with_flat_values(flat)


def load_tokenizer(path: str | os.PathLike) -> Tokenizer:
    """Reads a vocabulary file of any kind; the content says which.

    Args:
        path: A file written by `Tokenizer.save`, a tensor2tensor vocabulary, or a SentencePiece
            model with the same special ids (`spm_train --pad_id=0 --unk_id=1 --bos_id=2
            --eos_id=3`; `adopt_sentencepiece` reads any other).

    Raises:
        ValueError: The file is missing, is no vocabulary, or has other special ids.
    """
    from keras_transformer.text.sentencepiece import SentencePieceTokenizer
    from keras_transformer.text.subwords import SubwordTokenizer, is_subword_file
    from keras_transformer.text.wordpiece import WordPieceTokenizer

    try:
        content = pathlib.Path(path).read_bytes()
    except OSError as error:
        raise ValueError(
            f"the vocabulary file {str(path)!r} cannot be read: {error.strerror}"
        ) from None
    # A SentencePiece model is a protocol buffer and starts with 0x0a, WordPiece is JSON.
    kind = WordPieceTokenizer if content.startswith(b"{") else SentencePieceTokenizer
    if is_subword_file(content):
        kind = SubwordTokenizer
    try:
        return kind(content)
    except ValueError as error:
        raise ValueError(f"{str(path)!r}: {error}") from None


def check_special_ids(found: dict[str, int | None]) -> None:
    """Raises ValueError unless `found` is pad 0, unknown 1, begin 2, end 3."""
    if found != SPECIAL_IDS:
        raise ValueError(
            "a vocabulary must have the special ids "
            f"{_spell(SPECIAL_IDS)}; found {_spell(found)}. Learn it again with these ids"
        )


def _spell(ids: dict[str, int | None]) -> str:
    return ", ".join(f"{name} {'missing' if i in (None, -1) else i}" for name, i in ids.items())
