"""BLEU as the paper counted it: Moses tokens, compounds split, `multi-bleu.perl` (section 6.1).

The paper's figures are those of tensor2tensor's `get_ende_bleu.sh`: both sides pass the Moses
tokenizer, each hyphen between letters becomes a token of its own, and the tokens are counted as
they are, cased. That gives up to a point more than sacreBLEU, and is comparable with the paper
alone. What counts is sacreBLEU, what cuts into tokens is sacremoses; here is what lies between.
"""

from __future__ import annotations

import functools
import re

import sacrebleu

# Perl splits bytes, at ASCII white space alone; Python's `split`, which sacreBLEU uses, at that of
# all Unicode (which has none above the basic plane). What Perl leaves in its word is put where
# `split` leaves it too.
_OTHER_SPACES = [c for c in map(chr, range(0x10000)) if c.isspace() and c not in " \t\n\r\f\v"]
_KEPT = str.maketrans({c: chr(0xF0000 + ord(c)) for c in _OTHER_SPACES})
# The Perl script splits the full stop from a line's last word even of an abbreviation ("usw.");
# sacremoses follows an older one, which did not.
_LAST_STOP = re.compile(r"(?<=[^\s.])\.$")
_COMPOUND = re.compile(r"(\S)-(\S)")


def make_multi_bleu() -> sacrebleu.metrics.BLEU:
    """The metric that counts tokens as `multi-bleu.perl` does: cased, not smoothed.

    Example:
        >>> tokens = only_perls_spaces(["the cat sat on the mat ."])
        >>> make_multi_bleu().corpus_score(tokens, [tokens]).score
        100.0
    """
    return sacrebleu.metrics.BLEU(tokenize="none", smooth_method="none", force=True)


def only_perls_spaces(lines: list[str]) -> list[str]:
    """Lines that Python's `split` cuts where the Perl script does: at ASCII white space alone."""
    return [line.translate(_KEPT) for line in lines]


def split_compounds(line: str) -> str:
    """Each hyphen with something on both sides as a token of its own, as `get_ende_bleu.sh` does.

    Example:
        >>> split_compounds("a-b-c")
        'a ##AT##-##AT## b-c'
    """
    return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", line)


def moses_tokens(lines: list[str], language: str, unify_punctuation: bool = False) -> list[str]:
    """Lines as the Moses tokenizer leaves them: tokens with spaces between, XML's marks escaped.

    Args:
        lines: Detokenised lines.
        language: "de", "fr", "en", ...
        unify_punctuation: Whether full-width and typographic marks become plain ones before.
    """
    tokenizer, normalizer = _tools(language)
    if unify_punctuation:
        lines = [normalizer.replace_unicode_punct(line) for line in lines]
    tokens = (tokenizer.tokenize(line, return_str=True) for line in lines)
    return [_LAST_STOP.sub(" .", line) for line in tokens]


def paper_tokens(lines: list[str], language: str, are_references: bool) -> list[str]:
    """What `get_ende_bleu.sh` counts: Moses tokens with compounds split.

    Args:
        lines: Detokenised lines.
        language: Theirs.
        are_references: The script unifies the punctuation of translations alone.
    """
    tokens = moses_tokens(lines, language, unify_punctuation=not are_references)
    return [split_compounds(line) for line in tokens]


def moses_languages() -> list[str]:
    """The languages that Moses knows, as "de"."""
    from sacremoses.corpus import NonbreakingPrefixes

    return sorted(set(NonbreakingPrefixes().available_langs.values()))


@functools.cache
def _tools(language):
    import sacremoses  # half a second, which only this needs

    return sacremoses.MosesTokenizer(lang=language), sacremoses.MosesPunctNormalizer(lang=language)
