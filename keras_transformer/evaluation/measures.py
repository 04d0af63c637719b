"""The measures of `keras-transformer evaluate`: BLEU three ways, chrF, TER; how sure they are.

All are sacreBLEU's metrics; what differs is what their texts pass through before.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable

import sacrebleu

from keras_transformer.evaluation.bleu import Score, check_equally_many, make_metric
from keras_transformer.evaluation.multi_bleu import (
    make_multi_bleu,
    moses_languages,
    moses_tokens,
    only_perls_spaces,
    paper_tokens,
)

MEASURES = ("sacrebleu", "tokenized", "paper", "chrf", "ter")


class Compared(typing.NamedTuple):
    """A system beside the first.

    Attributes:
        name: The system's.
        score: As counted.
        mean, margin: Of the resampled texts: with 95 % probability it is mean +- margin.
        p_value: How probable so large a difference to the first would be by chance; None for it.
    """

    name: str
    score: float
    mean: float
    margin: float
    p_value: float | None


@dataclasses.dataclass(frozen=True)
class Measure:
    """A metric, and what its texts pass through before; from `make_measure`.

    Example:
        >>> measure = make_measure("paper", language="de")
        >>> measure(["Der Hund schläft heute."], ["Der Hund schläft heute."]).score
        100.0
    """

    name: str
    metric: sacrebleu.metrics.base.Metric
    prepare: Callable[[list[str], bool], list[str]]  # lines, and whether they are references
    prepared_as: str = ""  # for the signature

    @property
    def signature(self) -> str:
        """sacreBLEU's, of the latest score, with what the texts passed through before."""
        return f"{self.name}|{self.prepared_as}{self.metric.get_signature()}"

    def __call__(self, hypotheses: list[str], references: list[str], resamples: int = 0) -> Score:
        """The score of detokenised lines.

        Args:
            hypotheses, references: Equally many lines.
            resamples: With some, the text says the 95 % interval by bootstrap (Koehn 2004).

        Raises:
            ValueError: There are no lines, or not equally many.
        """
        check_equally_many(hypotheses, references)
        result = self.metric.corpus_score(
            self.prepare(hypotheses, False), [self.prepare(references, True)], resamples or 1
        )
        return Score(result.score, str(result), self.signature)

    def compare(
        self, systems: dict[str, list[str]], references: list[str], resamples: int = 1000
    ) -> list[Compared]:
        """The first system beside each other one, by paired bootstrap (Koehn 2004).

        Args:
            systems: Each name's lines, of the same sentences; two or more.
            references: Their references.
            resamples: How many texts are drawn.

        Raises:
            ValueError: A system's lines are not as many as the references.
        """
        from sacrebleu.significance import PairedTest  # slow to import, and only this needs it

        for lines in systems.values():
            check_equally_many(lines, references)
        prepared = [(name, self.prepare(lines, False)) for name, lines in systems.items()]
        _, found = PairedTest(
            prepared,
            {self.name: self.metric},
            [self.prepare(references, True)],
            test_type="bs",
            n_samples=resamples,
        )()
        (results,) = (column for title, column in found.items() if title != "System")
        first = prepared[0][1]
        return [
            # (sacreBLEU finds the same text significantly different from itself.)
            Compared(
                name, one.score, one.mean, one.ci, 1.0 if i and lines == first else one.p_value
            )
            for i, ((name, lines), one) in enumerate(zip(prepared, results, strict=True))
        ]


def make_measure(
    name: str, language: str | None = None, tokenizer: str = "13a", lowercase: bool = False
) -> Measure:
    """A measure by name.

    Args:
        name: "sacrebleu"; "tokenized": `multi-bleu.perl` on Moses tokens; "paper": as the paper
            counted it, the same with compounds split; "chrf"; or "ter".
        language: Of translation and reference, as "tokenized" and "paper" need it: "de", "fr", ...
        tokenizer: Of "sacrebleu": "13a", "intl", ...
        lowercase: Whether case is ignored, by "sacrebleu", "chrf" and "ter".

    Raises:
        ValueError: There is no such measure, or what it needs is not given.
    """
    if name not in MEASURES:
        raise ValueError(f"There is no measure {name!r}. There are: {', '.join(MEASURES)}.")
    if name == "sacrebleu":
        return Measure(name, make_metric(tokenizer, lowercase), _as_they_are)
    if name == "chrf":
        return Measure(name, sacrebleu.metrics.CHRF(lowercase=lowercase), _as_they_are)
    if name == "ter":
        return Measure(name, sacrebleu.metrics.TER(case_sensitive=not lowercase), _as_they_are)
    if language is None:
        raise ValueError(
            f"The measure {name!r} cuts into tokens as Moses does, by the language. Give it, such "
            "as --language de."
        )
    if language not in moses_languages():
        raise ValueError(
            f"Moses knows the languages {', '.join(moses_languages())}. Received: {language!r}."
        )
    if lowercase:
        raise ValueError(f"The measure {name!r} is cased: leave --lowercase out.")

    def tokens(lines, are_references):
        if name == "paper":
            lines = paper_tokens(lines, language, are_references)
        else:
            lines = moses_tokens(lines, language)
        return only_perls_spaces(lines)

    compounds = "split" if name == "paper" else "whole"
    return Measure(name, make_multi_bleu(), tokens, f"moses:{language}|compounds:{compounds}|")


def _as_they_are(lines, are_references):
    return lines
