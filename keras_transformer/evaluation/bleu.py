"""BLEU as sacreBLEU counts it (Post 2018), with the signature that says how."""

from __future__ import annotations

import typing

import sacrebleu

TOKENIZERS = tuple(sacrebleu.metrics.BLEU.TOKENIZERS)


class Score(typing.NamedTuple):
    """A text's score.

    Attributes:
        score: From 0 to 100; higher is better, but for TER.
        text: The score with its parts: of BLEU n-gram precisions, brevity penalty and lengths.
        signature: sacreBLEU's, with tokeniser and version.
    """

    score: float
    text: str
    signature: str


def make_metric(tokenizer: str = "13a", lowercase: bool = False) -> sacrebleu.metrics.BLEU:
    """sacreBLEU's metric.

    Raises:
        ValueError: It has no such tokenizer, or the tokenizer needs what is not there.
    """
    if tokenizer not in TOKENIZERS:
        raise ValueError(
            f"sacreBLEU has no tokenizer {tokenizer!r}. It has: {', '.join(TOKENIZERS)}."
        )
    try:
        return sacrebleu.metrics.BLEU(tokenize=tokenizer, lowercase=lowercase)
    except (RuntimeError, ImportError, OSError) as error:  # a package or a download
        reason = " ".join(str(error).split())
        raise ValueError(f"sacreBLEU's tokenizer {tokenizer!r} cannot be had: {reason}") from error


def corpus_bleu(
    hypotheses: list[str], references: list[str], tokenizer: str = "13a", lowercase: bool = False
) -> Score:
    """BLEU of detokenised text against one reference each.

    Args:
        hypotheses, references: Equally many lines.
        tokenizer: sacreBLEU's: "13a", "intl", "none", ...
        lowercase: Whether case is ignored.

    Raises:
        ValueError: There are no lines, or not equally many, or sacreBLEU has no such tokenizer.

    Example:
        >>> corpus_bleu(["the cat sat on the mat"], ["the cat sat on the mat"]).score
        100.0
    """
    check_equally_many(hypotheses, references)
    metric = make_metric(tokenizer, lowercase)
    result = metric.corpus_score(hypotheses, [references])
    return Score(result.score, str(result), str(metric.get_signature()))


def check_equally_many(hypotheses: list[str], references: list[str]) -> None:
    """Raises ValueError where there are no lines, or more of the one than of the other."""
    if not hypotheses or len(hypotheses) != len(references):
        raise ValueError(
            "There should be as many translations as references, and some. Received: "
            f"{len(hypotheses)} translations and {len(references)} references."
        )
