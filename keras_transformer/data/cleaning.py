"""Leaving out training pairs that are no translations; the paper does not say what it left out."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Iterator

import regex

from keras_transformer.config import DataConfig
from keras_transformer.data.corpus import PairStream, ParallelText

_CONTROL = regex.compile(r"[\p{Cc}\p{Co}\p{Cs}\p{Cn}\uFFFD--\t]", flags=regex.V1)
_LETTER = regex.compile(r"\p{L}")


def clean(text: ParallelText, data: DataConfig) -> tuple[ParallelText, dict[str, int]]:
    """The pairs that pass the filters of `data`, in their order.

    Args:
        text: The pairs.
        data: Its fields from `max_length_ratio` to `normalize` say what is left out; by default
            nothing is.

    Returns:
        The rest, and how many pairs each filter that is on left out, by its name; of several that
        would leave a pair out the first counts it.

    Raises:
        ValueError: Nothing would be left.

    Example:
        >>> text = ParallelText(["a b", "a b"], ["c d", "c d"], "two")
        >>> clean(text, DataConfig(drop_duplicates=True))[1]
        {'drop_duplicates': 1}
    """
    if not _filters(data) and data.normalize is None:
        return text, {}
    left_out: dict[str, int] = {}
    stream = PairStream(text.name, lambda: clean_pairs(text, data, left_out))
    try:
        return stream.collect(), left_out
    except ValueError as error:
        raise ValueError(
            f"{text.name}: cleaning leaves nothing of {len(text)} pairs: {left_out} were left "
            "out. Choose milder filters."
        ) from error


def clean_pairs(
    pairs: Iterable[tuple[str, str]], data: DataConfig, left_out: dict[str, int]
) -> Iterator[tuple[str, str]]:
    """As `clean`, one pair after the other.

    Args:
        pairs: The pairs.
        data: As for `clean`.
        left_out: Gets how many pairs each filter that is on has left out so far.
    """
    filters = _filters(data)
    left_out.update(dict.fromkeys(filters, 0))
    for pair in pairs:
        if data.normalize is not None:
            pair = tuple(unicodedata.normalize(data.normalize, line) for line in pair)
        reason = next((name for name, is_unfit in filters.items() if is_unfit(*pair)), None)
        if reason is None:
            yield pair
        else:
            left_out[reason] += 1


def _filters(data: DataConfig) -> dict:
    """What tells an unfit pair, by the field that asks for it."""
    filters = {}
    if data.drop_control:
        filters["drop_control"] = lambda *pair: any(map(_CONTROL.search, pair))
    if data.max_length_ratio is not None:
        filters["max_length_ratio"] = lambda source, target: _ratio_is_above(
            len(source.split()), len(target.split()), data.max_length_ratio
        )
    for side, name in enumerate(("source_script", "target_script")):
        if getattr(data, name) is not None:
            filters[name] = _is_of_another_script(side, name, getattr(data, name))
    if data.drop_identical:
        filters["drop_identical"] = lambda source, target: source.strip() == target.strip() != ""
    if data.drop_duplicates:
        filters["drop_duplicates"] = _came_before()
    return filters


def _ratio_is_above(one: int, other: int, most: float) -> bool:
    return max(one, other) > most * max(min(one, other), 1)


def _is_of_another_script(side: int, name: str, script: str):
    try:
        its = regex.compile(rf"[\p{{L}}&&\p{{Script={script}}}]", flags=regex.V1)
    except regex.error as error:
        raise ValueError(
            f"{name} should be a script of Unicode, such as Latin, Cyrillic or Han. Received: "
            f"{script!r}."
        ) from error
    return lambda *pair: 2 * len(its.findall(pair[side])) < len(_LETTER.findall(pair[side]))


def _came_before():
    seen: set[bytes] = set()  # of digests: shorter than the text

    def came_before(*pair):
        text = "\n".join(pair).encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(text, digest_size=12).digest()
        before = digest in seen
        seen.add(digest)
        return before

    return came_before
