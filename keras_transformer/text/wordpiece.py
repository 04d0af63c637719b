"""WordPiece, cased and keeping its spaces.

A text is first cut into chunks: a run of letters, of digits or of other characters, with the mark
U+2581 for the space before it if there is one. Chunks are then cut into pieces, the longest first;
"##" marks a piece that goes on. Joining the pieces gives the text back, spaces included.

The limit: a character outside the vocabulary's alphabet (NUL always is) becomes the unknown id,
alone, and is "⁇" in detokenised text. "#" is always a chunk of its own, so that it is not taken for
the "##" mark.
"""

from __future__ import annotations

import collections
import itertools
import json
import os
import pathlib
import unicodedata
from collections.abc import Iterable, Sequence

import tensorflow as tf

from keras_transformer.text.tokenizer import (
    SPACE_MARK,
    SPECIAL_IDS,
    UNKNOWN_SURFACE,
    Tokenizer,
    check_special_ids,
    import_tensorflow_text,
)

_JOINER = "##"
_SPECIAL_PIECES = ("[PAD]", "[UNK]", "[BEGIN]", "[END]")
_MAX_ALPHABET = 1000
# Longer chunks are left out of the learning (not out of the tokenising): its time and memory grow
# with the square of a chunk's length.
_MAX_LEARNT_LENGTH = 50


class WordPieceTokenizer(Tokenizer):
    """A WordPiece vocabulary in the graph; see `Tokenizer` for what it does.

    Args:
        content: What `save` wrote, as bytes or as a path: JSON with `kind` "wordpiece" and the
            list `pieces`, special pieces first, and each character both alone and after "##".

    Raises:
        ValueError: No such vocabulary, or other special ids.
    """

    kind = "wordpiece"
    file_suffix = ".json"

    def __init__(self, content: bytes | str | os.PathLike):
        if not isinstance(content, bytes):
            content = pathlib.Path(content).read_bytes()
        pieces = _read_pieces(content)
        super().__init__(content, pieces)
        alphabet = {piece for piece in pieces if len(piece) == 1}
        self._chunk_pattern = _chunk_pattern(alphabet)
        self._op = import_tensorflow_text().FastWordpieceTokenizer(
            pieces,
            suffix_indicator=_JOINER,
            unknown_token=_SPECIAL_PIECES[SPECIAL_IDS["unknown"]],
            max_bytes_per_word=tf.int32.max,  # by default a word of over 100 bytes is unknown
            token_out_type=tf.int32,
            no_pretokenization=True,
        )
        # What each piece adds to a text. Not the op's own detokenize, which joins chunks by spaces
        # and spells the special ids out.
        special = ["", UNKNOWN_SURFACE, "", ""]
        surfaces = [p.removeprefix(_JOINER).replace(SPACE_MARK, " ") for p in pieces[4:]]
        self._surfaces = tf.constant(special + surfaces)

    def _tokenize(self, strings: tf.Tensor) -> tf.RaggedTensor:
        return self._op.tokenize(_chunks(strings, self._chunk_pattern)).merge_dims(1, 2)

    def _detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        return tf.strings.reduce_join(tf.gather(self._surfaces, ids), axis=-1)


def learn_wordpiece(lines: Iterable[str], vocab_size: int) -> WordPieceTokenizer:
    """Learns a WordPiece vocabulary from normalised lines; `learn_tokenizer` is the public way.

    The alphabet is the 1,000 most frequent characters. The learner is tensorflow-text's, in plain
    Python: 20 seconds for 58,000 short lines, so take a sample of a large corpus.

    Raises:
        ValueError: `vocab_size` is too large or too small for the text.
    """
    lines = list(lines)
    frequencies = collections.Counter(itertools.chain.from_iterable(lines))
    frequencies[" "] += 1  # so that any text's spaces are known
    del frequencies["\0"]  # the op's table cannot hold it
    by_frequency = sorted(frequencies.items(), key=lambda item: (-item[1], item[0]))
    alphabet = {char.replace(" ", SPACE_MARK) for char, _ in by_frequency[:_MAX_ALPHABET]}
    # Every character is a piece, alone and going on, so no chunk of known characters is unknown.
    inner = alphabet - {SPACE_MARK, "#"}
    characters = [*sorted(alphabet), *(_JOINER + char for char in sorted(inner))]
    places = vocab_size - len(_SPECIAL_PIECES) - len(characters)
    if places < 0:
        raise ValueError(
            f"vocab_size={vocab_size} is too small for this text: the special ids and its "
            f"{len(alphabet)} characters, alone and after {_JOINER!r}, need {vocab_size - places}. "
            "Give more than that"
        )
    longer = _learn_longer_pieces(_count_chunks(lines, alphabet), places)
    if len(longer) < places:
        raise ValueError(
            f"vocab_size={vocab_size} is too large for this text: at most "
            f"{vocab_size - places + len(longer)} pieces can be learnt from it. Give that or "
            "less, or more text"
        )
    pieces = [*_SPECIAL_PIECES, *characters, *longer[:places]]
    content = json.dumps({"kind": "wordpiece", "pieces": pieces}, ensure_ascii=False, indent=0)
    return WordPieceTokenizer(content.encode("utf-8"))


def _learn_longer_pieces(counts: dict[str, int], enough: int) -> list[str]:
    """Pieces of several characters, the most frequent first: `enough` or more, if there are any."""
    if not enough or not counts:
        return []
    from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as learner

    items = sorted(counts.items())
    params = learner.Params(
        upper_thresh=None,
        lower_thresh=None,
        num_iterations=2,  # 4, the default, takes twice the time for 0.1 % fewer tokens
        max_input_tokens=-1,
        max_token_length=_MAX_LEARNT_LENGTH,
        max_unique_chars=_MAX_ALPHABET,
        vocab_size=enough,
        slack_ratio=0.0,
        include_joiner_token=True,
        joiner=_JOINER,
        reserved_tokens=[],
    )

    def learn(threshold: int) -> list[str]:
        pieces = learner.learn_with_thresh(items, threshold, params)
        return [piece for piece in pieces if len(piece.removeprefix(_JOINER)) > 1]

    # The higher the frequency that a piece must have, the fewer there are. The learner's own search
    # stops at some size near the wanted one; this one finds the threshold just low enough, in as
    # few tries as it can, for each takes seconds.
    low, high, found = 0, max(counts.values()) + 1, None  # too many pieces at low, too few at high
    threshold = max(1, sum(counts.values()) // (20 * enough))
    while high - low > 1:
        threshold = min(max(threshold, low + 1), high - 1)
        pieces = learn(threshold)
        if len(pieces) < enough:
            high = threshold
        else:
            low, found = threshold, pieces
            if len(pieces) <= 1.02 * enough:
                break
        # Their number falls about as the threshold rises; aim a little above what is needed.
        threshold = int(threshold * (max(len(pieces), 1) / (1.01 * enough)) ** 1.2)
    return pieces if found is None else found


def _count_chunks(lines: Sequence[str], alphabet: set[str]) -> dict[str, int]:
    """How often each chunk of known characters occurs, cut by the very op that will tokenise."""
    pattern, counts = _chunk_pattern(alphabet), collections.Counter()
    for start in range(0, len(lines), 10_000):
        batch = tf.constant(lines[start : start + 10_000])
        counts.update(_chunks(batch, pattern).flat_values.numpy().tolist())
    chunks = {chunk.decode("utf-8"): count for chunk, count in counts.items()}
    return {chunk: count for chunk, count in chunks.items() if 1 < len(chunk) <= _MAX_LEARNT_LENGTH}


def _chunks(strings: tf.Tensor, pattern: str) -> tf.RaggedTensor:
    """Cuts strings `[batch]` into chunks `[batch, (chunks)]`; one empty chunk may end each."""
    marked = tf.strings.regex_replace(strings, " ", SPACE_MARK)
    # All spaces are marks now, so a space is free to divide chunks.
    return tf.strings.split(tf.strings.regex_replace(marked, pattern, r"\0 "), " ")


def _chunk_pattern(alphabet: set[str]) -> str:
    """RE2 pattern of one chunk; the classes are spelt out, as Unicode tables differ by version."""
    groups = {"letters": [], "digits": [], "others": []}
    for char in sorted(alphabet - {SPACE_MARK, "#"}):
        major = unicodedata.category(char)[0]
        groups[{"L": "letters", "M": "letters", "N": "digits"}.get(major, "others")].append(char)
    runs = [f"{SPACE_MARK}?{_char_class(chars)}+" for chars in groups.values() if chars]
    return "|".join([*runs, "(?s:.)"])  # last: a mark alone, "#", or an unknown character


def _char_class(chars: Sequence[str]) -> str:
    return "[" + "".join(f"\\x{{{ord(char):X}}}" for char in chars) + "]"


def _read_pieces(content: bytes) -> list[str]:
    """The pieces of a saved vocabulary, checked."""
    try:
        saved = json.loads(content)
        pieces = saved["pieces"] if saved["kind"] == "wordpiece" else None
    except (ValueError, TypeError, KeyError):
        pieces = None
    if not isinstance(pieces, list) or not all(_is_piece(piece) for piece in pieces):
        raise ValueError(
            "this is no WordPiece vocabulary; expected JSON with kind 'wordpiece' and a list of "
            f"pieces, received {len(content)} bytes {content[:40]!r}"
        )
    if len(set(pieces)) < len(pieces):
        twice = collections.Counter(pieces).most_common(1)[0][0]
        raise ValueError(f"a WordPiece vocabulary must not repeat a piece; {twice!r} is repeated")
    places = {piece: index for index, piece in enumerate(pieces)}
    names = dict(zip(SPECIAL_IDS, _SPECIAL_PIECES, strict=True))
    check_special_ids({name: places.get(piece) for name, piece in names.items()})
    return pieces


def _is_piece(piece: object) -> bool:
    """Whether the op can hold it; it cannot hold nothing, nothing after "##", or NUL."""
    return isinstance(piece, str) and piece not in ("", _JOINER) and "\0" not in piece
