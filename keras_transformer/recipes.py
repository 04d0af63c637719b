"""The trainings of the paper's Table 2, each whole: text, vocabulary, model, updates, measure."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A training of the paper, with what it says came of it.

    Attributes:
        preset: The model and how it is trained; see `PRESETS`.
        data: Fields of `DataConfig`.
        bleu: The paper's test BLEU, as it counts it (`--measure paper`).
        flops: The paper's estimate of what training costs.
        hours: On its machine, 8 P100 GPUs (section 5.2).
        provenance: Where the settings come from, and what they leave open.

    Example:
        >>> RECIPES["paper/ende-base"].bleu
        27.3
    """

    preset: str
    data: dict
    bleu: float
    flops: float
    hours: float
    provenance: str


_ENDE = {
    "dataset": "wmt14_translate/de-en",
    "source": "en",
    "target": "de",
    "vocab_kind": "bpe",
    "stream": True,  # 4.5 million pairs
}
_ENFR = {
    "dataset": "wmt14_translate/fr-en",
    "source": "en",
    "target": "fr",
    "vocab_kind": "wordpiece",
    "stream": True,  # 36 million pairs
}
_BPE = "Table 2 and section 5; a shared BPE of 37,000. "
_LEFT_OPEN = (
    "Validation on newstest2013, test on newstest2014, both cased. The paper does not say how its "
    "text was cleaned; nothing is left out here but pairs longer than max_length."
)

RECIPES = {
    "paper/ende-base": Recipe(
        "base",
        _ENDE,
        27.3,
        3.3e18,
        12,
        _BPE + _LEFT_OPEN,
    ),
    "paper/ende-big": Recipe(
        "big",
        _ENDE,
        28.4,
        2.3e19,
        84,
        _BPE + _LEFT_OPEN,
    ),
    "paper/enfr-base": Recipe(
        "base_enfr",
        _ENFR,
        38.1,
        3.3e18,
        12,
        "Table 2 and section 5; word pieces, 32,000. That they are shared, and that the dropout is "
        f"base's, the paper leaves open. {_LEFT_OPEN}",
    ),
    "paper/enfr-big": Recipe(
        "big_enfr",
        _ENFR,
        41.8,
        2.3e19,
        84,
        "Table 2 and section 5 (section 6.1 says 41.0 where the table says 41.8); word pieces, "
        f"32,000, and dropout 0.1. That they are shared the paper leaves open. {_LEFT_OPEN}",
    ),
}


def find_recipe(name: str) -> Recipe:
    """The recipe of that name.

    Raises:
        ValueError: There is none; the message lists those there are.
    """
    if name not in RECIPES:
        raise ValueError(f"There is no recipe {name!r}. There are: {', '.join(RECIPES)}.")
    return RECIPES[name]
