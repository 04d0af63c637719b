r"""The subword vocabularies of tensor2tensor, the code that the paper's authors released.

They are read, not learnt. A text is cut into tokens, runs of letters and digits and runs of
anything else; a lone space between two of the former is left out, for it goes without saying. In a
token "\" becomes "\\", "_" becomes "\u", a character that the vocabulary lacks its number, such as
"\8364;", and "_" marks its end. Tokens are cut into pieces, the longest first. All of that can be
undone.
"""

from __future__ import annotations

import os
import pathlib

import tensorflow as tf

from keras_transformer.config import UNK_ID
from keras_transformer.text.tokenizer import (
    SPECIAL_IDS,
    UNKNOWN_SURFACE,
    Tokenizer,
    import_tensorflow_text,
)

_RESERVED = ["<pad>", "<EOS>"]  # their first pieces
_SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>")
_ESCAPES = "\\_u;0123456789"
_WORD = r"[\p{L}\p{N}]"
# Characters that Unicode keeps out of text divide what is divided on the way.
_TOKEN, _NUMBER, _BACKSLASH = "\ufdd0", "\ufdd1", "\ufdd2"
_MOST_BYTES = 250  # of a piece, which the word piece op limits
_UNDEFINED = 0x3013  # stands for a number that is no character


class SubwordTokenizer(Tokenizer):
    """A tensor2tensor vocabulary in the graph; see `Tokenizer` for what it does.

    Its ids are tensor2tensor's and two more, for the four special ids that are ours.

    Args:
        content: A vocabulary file (`vocab.translate_ende_wmt32k.32768.subwords`), as bytes or as a
            path.

    Raises:
        ValueError: It is no such file.

    Example:
        >>> tokenizer = SubwordTokenizer("vocab.translate_ende_wmt32k.32768.subwords")
        >>> tokenizer.pieces(tokenizer.tokenize(["Dude - that's so cool."])[0].numpy())
        ['Du', 'de_', ' - _', 'that_', "'_", 's_', 'so_', 'cool_', '._']
    """

    kind = "t2t"
    file_suffix = ".subwords"

    def __init__(self, content: bytes | str | os.PathLike):
        if not isinstance(content, bytes):
            content = pathlib.Path(content).read_bytes()
        lines = _read_lines(content)
        pieces = lines[len(_RESERVED) :]
        super().__init__(content, [*_SPECIAL_PIECES, *pieces])
        alphabet = {*"".join(lines), *_ESCAPES, _TOKEN} - {"\n"}
        self._alphabet = tf.constant(sorted(map(ord, alphabet)))
        # Longest first, the way of the word piece op; each piece may begin a token or go on in it.
        ids = {piece: i for i, piece in enumerate(pieces, len(SPECIAL_IDS)) if piece}
        places = [*ids, *(_TOKEN + piece for piece in ids)]
        self._ids = tf.constant([UNK_ID, *ids.values(), *ids.values()])
        self._op = import_tensorflow_text().FastWordpieceTokenizer(
            [_TOKEN * 2, *places],
            suffix_indicator=_TOKEN,
            unknown_token=_TOKEN * 2,
            max_bytes_per_word=tf.int32.max,  # by default a word of over 100 bytes is unknown
            token_out_type=tf.int32,
            no_pretokenization=True,
        )
        self._surfaces = tf.constant(["", UNKNOWN_SURFACE + "_", "", "", *pieces])

    def _tokenize(self, strings: tf.Tensor) -> tf.RaggedTensor:
        replace = tf.strings.regex_replace
        texts = replace(strings, f"{_WORD}+|[^\\p{{L}}\\p{{N}}]+", rf"\0{_TOKEN}")
        texts = replace(texts, f"{_TOKEN} {_TOKEN}({_WORD})", rf"{_TOKEN}\1")
        texts = replace(replace(texts, r"\\", r"\\\\"), "_", r"\\u")
        texts = replace(self._with_numbers(texts), _TOKEN, f"_{_TOKEN}")
        tokens = tf.strings.split(replace(texts, f"{_TOKEN}$", ""), _TOKEN)
        found = self._op.tokenize(tokens).merge_dims(1, 2)
        return found.with_flat_values(tf.gather(self._ids, found.flat_values))

    def _with_numbers(self, texts: tf.Tensor) -> tf.Tensor:
        """Characters that are not in the alphabet as their numbers."""
        codes = tf.strings.unicode_decode(texts, "UTF-8")
        flat = codes.flat_values
        nearest = tf.minimum(tf.searchsorted(self._alphabet, flat), len(self._alphabet) - 1)
        is_known = tf.gather(self._alphabet, nearest) == flat
        escaped = tf.strings.join(["\\", tf.strings.as_string(flat), ";"])
        chars = tf.where(is_known, _characters(flat), escaped)
        return tf.strings.reduce_join(codes.with_flat_values(chars), axis=-1)

    def _detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        replace = tf.strings.regex_replace
        texts = tf.strings.reduce_join(tf.gather(self._surfaces, ids), axis=-1)
        texts = replace(texts, "_+", _TOKEN)
        texts = replace(replace(texts, r"\\\\", _BACKSLASH), r"\\u", "_")
        texts = replace(texts, r"\\[0-9]{8,};", chr(_UNDEFINED))
        texts = replace(texts, r"\\([0-9]+);", rf"{_NUMBER}\1{_NUMBER}")
        parts = tf.strings.split(texts, _NUMBER)  # every second one is a number
        is_number = tf.ragged.range(parts.row_lengths()).flat_values % 2 == 1
        flat = parts.flat_values
        codes = tf.strings.to_number(tf.where(is_number, flat, "0"), tf.int32)
        parts = parts.with_flat_values(tf.where(is_number, _characters(codes), flat))
        tokens = tf.strings.split(tf.strings.reduce_join(parts, axis=-1), _TOKEN)
        flat = tokens.flat_values
        is_word = tf.strings.regex_full_match(flat, f"(?s){_WORD}.*")
        goes_on = tf.ragged.range(tokens.row_lengths()).flat_values > 0
        is_after_word = tf.concat([[False], is_word], axis=0)[:-1] & goes_on
        flat = tf.where(is_word & is_after_word, tf.strings.join([" ", flat]), flat)
        texts = tf.strings.reduce_join(tokens.with_flat_values(flat), axis=-1)
        return replace(texts, _BACKSLASH, r"\\")


def is_subword_file(content: bytes) -> bool:
    """Whether the content begins as a tensor2tensor vocabulary does."""
    return content.removeprefix(b"\xef\xbb\xbf").lstrip(b"'\"").startswith(_RESERVED[0].encode())


def _characters(codes: tf.Tensor) -> tf.Tensor:
    """The character of each number."""
    return tf.strings.unicode_encode(
        codes[:, None], "UTF-8", errors="replace", replacement_char=_UNDEFINED
    )


def _read_lines(content: bytes) -> list[str]:
    """The pieces of a file, one a line, most in quotation marks."""
    try:
        text = content.decode("utf-8-sig").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"this is no tensor2tensor vocabulary: {error}") from None
    lines = [line.strip() for line in text.split("\n")]
    lines = [
        line[1:-1] if len(line) > 1 and line[0] == line[-1] and line[0] in "'\"" else line
        for line in lines
    ]
    if lines[: len(_RESERVED)] != _RESERVED or len(lines) == len(_RESERVED):
        raise ValueError(
            f"this is no tensor2tensor vocabulary: it should begin with {_RESERVED} and go on with "
            f"pieces, one a line; received {lines[:3]}"
        )
    for number, line in enumerate(lines, 1):
        if len(line.encode()) > _MOST_BYTES or {"\0", _TOKEN} & set(line):
            raise ValueError(
                f"line {number}: a piece should have at most {_MOST_BYTES} bytes, and neither NUL "
                f"nor U+FDD0; received {line[:80]!r}"
            )
    return lines
