"""Random noun phrases and clauses that make sense: who may do what to whom, where and when.

`demo_grammar.py` says them in both languages, `demo.py` joins them to sentences.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from typing import Any

from keras_transformer.data.demo_grammar import (
    ACCUSATIVE,
    DATIVE,
    EARLY_ADVERBS,
    LATE_ADVERBS,
    PRONOUNS,
    Clause,
    Pair,
    Phrase,
    both,
    name_phrase,
    noun_phrase,
    prepositional,
    pronoun_phrase,
)
from keras_transformer.data.demo_lexicon import (
    NAMES,
    NOUNS,
    POSSESSIVES,
    VERBS,
    Noun,
    Verb,
    nouns_of,
)

_TENSES = (
    ("present", 25), ("past", 27), ("perfect", 17), ("future", 8), ("progressive", 9), ("can", 4),
    ("must", 4), ("want", 3), ("should", 2), ("could", 1), ("had_to", 2), ("wanted", 2),
)  # fmt: skip
PASTS = ("past", "had_to", "wanted", "could")
_UNWILLED = ("present", "past", "perfect", "future", "progressive")  # of animals and things
_TIMES = (  # with the tenses they go with
    ("yesterday", "gestern", "past"),
    ("last week", "letzte Woche", "past"),
    ("on Sunday", "am Sonntag", "past future must"),
    ("tomorrow", "morgen", "future must can"),
    ("next week", "nächste Woche", "future must can"),
    ("today", "heute", "progressive future must can past"),
    ("now", "jetzt", "progressive must"),
    ("every day", "jeden Tag", "present past had_to"),
    ("in the evening", "am Abend", "present past future"),
    ("in summer", "im Sommer", "present past future"),
)
_TIMES_OF = {
    tense: tuple((time, zeit) for time, zeit, tenses in _TIMES if tense in tenses.split())
    for tense, _ in _TENSES
}
_PREPOSITIONS = {  # by the frame of the verb
    "for": ("for", "auf", ACCUSATIVE),
    "to": ("to", "mit", DATIVE),
    "with": ("with", "mit", DATIVE),
}


def verbs(*names: str) -> tuple[Verb, ...]:
    return tuple(verb for name in names for verb in VERBS if verb.english[0] == name)


def _nouns(*names: str) -> tuple[Noun, ...]:
    return tuple(noun for name in names for noun in NOUNS if noun.english == name)


_SPOTS = (  # English where, English where to, German, the nouns
    ("on", "on", "auf", _nouns("table", "chair", "bed")),
    ("in", "into", "in", _nouns("bag", "box")),
    ("under", "under", "unter", _nouns("table", "chair", "bed")),
    ("behind", "behind", "hinter", _nouns("door", "box", "lamp")),
    ("next to", "next to", "neben", _nouns("bag", "lamp", "window")),
)
PERSONS = nouns_of("person")
ANIMALS = nouns_of("animal")
SITES = nouns_of("place")
FREE = tuple(verb for verb in VERBS if verb.frame not in ("that", "weather", "lie"))
_WEIGHTED = tuple((verb, 5 if verb.frame == "count" else 1) for verb in FREE)
_BY_ANIMALS = tuple(verb for verb in FREE if "a" in verb.traits)
_LIE = verbs("lie")
_IN_BULK = verbs("buy", "sell", "see", "find", "need")
_USUALLY = (*EARLY_ADVERBS, LATE_ADVERBS[0])

# Determiners and their weights, by what the noun phrase is for.
_SINGULAR = (("the", 6), ("a", 2), ("possessive", 1))
_PLACES = (("the", 4), ("a", 3), ("this", 2))
_KIN = (("possessive", 8), ("the", 2), ("owner", 1))
_SUBJECTS = (
    ("the", 110), ("a", 30), ("possessive", 20), ("this", 20), ("every", 10), ("owner", 10),
    ("number", 13), ("many", 7), ("some", 7),
)  # fmt: skip
DEFINITE = (("the", 8), ("possessive", 2), ("this", 2), ("owner", 1))
_ANYONE = (*DEFINITE, ("a", 3), ("number", 1), ("many", 1), ("some", 1))
_ANYTHING = (
    ("the", 60), ("a", 70), ("possessive", 30), ("this", 15), ("owner", 12), ("number", 30),
    ("bare", 20), ("many", 7), ("some", 7),
)  # fmt: skip
_NEGATED = (("the", 4), ("a", 4), ("possessive", 2), ("this", 1), ("bare", 2))
_OWNED = (("a", 5), ("number", 3), ("many", 1), ("some", 1))
_OWNED_NOT = (("a", 3), ("bare", 1))
_COUNTED = (("number", 9), ("the", 1))
_COUNTED_NOT = (("the", 3), ("possessive", 1), ("this", 1))
_MASS = (("bare", 6), ("the", 3), ("possessive", 1))
_SUBJECT_PRONOUNS = (("I", 4), ("you", 3), ("he", 3), ("she", 3), ("we", 2), ("they", 2))
_ALWAYS_ONE = ("a", "every")
_ALWAYS_MANY = ("bare", "many", "some")


class Speaker:
    """Draws noun phrases, places and clauses; the same seed gives the same ones, everywhere."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random  # the method whose stream no Python changes

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def pick(self, items: Sequence[Any]) -> Any:
        return items[int(self._random() * len(items))]

    def weighted(self, items: Sequence[tuple[Any, int]]) -> Any:
        """One of the items, each drawn as often as its weight says."""
        point = self._random() * sum(weight for _, weight in items)
        for item, weight in items:
            point -= weight
            if point < 0:
                return item
        return items[-1][0]

    # Noun phrases.

    def number(self, largest: int) -> int:
        """From 2 to 12, or up to 999; never 101, 201, ..., whose German is in dispute."""
        kind = 0.0 if largest <= 12 else self._random()
        if kind < 0.35:
            return 2 + int(self._random() * 11)
        if kind < 0.5:
            return 13 + int(self._random() * 7)
        if kind < 0.75:
            return 20 + int(self._random() * 80)
        number = 100 + int(self._random() * 900)
        return number + (number % 100 == 1)

    def noun(
        self, noun: Noun, determiners: tuple, adjective: float = 0.3, plural: float = 0.25,
        largest: int = 12,
    ) -> Phrase:  # fmt: skip
        """The noun with one of the determiners; an adjective and a plural by their probability."""
        chosen = self.weighted(determiners)
        if chosen in ("possessive", "owner") and "stranger" in noun.classes:
            chosen = "the"
        word = self.pick(noun.adjectives) if self.chance(adjective) else ""
        if chosen == "owner":
            if self.chance(0.5):
                return noun_phrase(noun, owner=self.name())
            return noun_phrase(noun, "", word, owner=noun_phrase(self.pick(PERSONS), "the"))
        if chosen == "number":
            return noun_phrase(noun, self.number(largest), word)
        many = chosen in _ALWAYS_MANY or (chosen not in _ALWAYS_ONE and self.chance(plural))
        if chosen == "possessive":
            chosen = self.pick(POSSESSIVES)
        many = many and not noun.mass
        return noun_phrase(noun, "" if chosen == "bare" else chosen, word, many)

    def name(self) -> Phrase:
        return name_phrase(*self.pick(NAMES))

    def person(self, determiners: tuple = _ANYONE, pronouns: float = 0.25) -> Phrase:
        """Somebody as an object."""
        if self.chance(pronouns):
            return pronoun_phrase(self.pick(tuple(PRONOUNS)))
        if self.chance(0.15):
            return self.name()
        noun = self.pick(PERSONS)
        return self.noun(noun, _KIN if "kin" in noun.classes else determiners, 0.25)

    def subject(self, determiners: tuple = _SUBJECTS) -> Phrase:
        """Somebody as a subject."""
        if self.chance(0.36):
            return pronoun_phrase(self.weighted(_SUBJECT_PRONOUNS))
        if self.chance(0.15):
            return self.name()
        noun = self.pick(PERSONS)
        if self.chance(0.05):
            return both(self.name(), noun_phrase(noun, "the"))
        return self.noun(noun, _KIN if "kin" in noun.classes else determiners)

    def taken_up(self) -> Phrase:
        """A subject that a later pronoun can mean: no "child" or "girl", which are neuter."""
        subject = self.subject()
        while subject.kind != "pronoun" and subject.gender == "n":
            subject = self.subject()
        return subject

    def thing(self, noun: Noun, determiners: tuple = _ANYTHING, largest: int = 12) -> Phrase:
        """A thing, an animal or food as a direct object."""
        determiners = determiners if not noun.mass else _MASS
        return self.noun(noun, determiners, largest=largest)

    # Places.

    def at(self, noun: Noun) -> Pair:
        """Where: "in the garden", "at the market"."""
        german_word = {"market": "auf", "station": "an"}.get(noun.english, "in")
        return prepositional(
            "at" if "at" in noun.classes else "in", german_word, self._place(noun), DATIVE
        )

    def towards(self, noun: Noun) -> Pair:
        """Where to: "into the garden", "to the market"."""
        if "to" in noun.classes:
            return prepositional("to", "zu", self._place(noun), DATIVE)
        return prepositional("into", "in", self._place(noun), ACCUSATIVE)

    def _place(self, noun: Noun) -> Phrase:
        return self.noun(noun, _PLACES, 0.5, 0) if self.chance(0.3) else noun_phrase(noun, "the")

    def spot(self, case: int) -> Pair:
        """On, in, under something: where in the dative, where to in the accusative."""
        where, where_to, german_word, nouns = self.pick(_SPOTS)
        return prepositional(
            where if case == DATIVE else where_to, german_word,
            self.noun(self.pick(nouns), _SINGULAR, 0.2), case,
        )  # fmt: skip

    # Clauses.

    def tense(self, subject: Phrase, verb: Verb, allowed: Sequence[str]) -> str:
        """A tense that fits the subject and the verb, or "" if none does."""
        options = _tense_options(subject.person, verb, tuple(allowed))
        return self.weighted(options) if options else ""

    def clause(
        self, subject: Phrase | None = None, tenses: Sequence[str] = (), verbs: Sequence = (),
        full: bool = True,
    ) -> Clause:  # fmt: skip
        """Somebody does something; only a `full` one may be negated or have adverbials."""
        if not (subject or verbs) and self.chance(0.16):
            return self.creature(tenses, full)
        tense = ""
        while not tense:
            who = subject or self.subject()
            verb = self.pick(verbs) if verbs else self.weighted(_WEIGHTED)
            tense = self.tense(who, verb, tenses)
        return self.finished(Clause(who, verb, tense, negated=full and self.chance(0.14)), full)

    def creature(self, tenses: Sequence[str], full: bool) -> Clause:
        """An animal does something, or a thing lies somewhere."""
        possible = [tense for tense in tenses or _UNWILLED if tense in _UNWILLED]
        lies = self.chance(0.35) and bool({"present", "past"} & set(possible))
        verb = self.pick(_LIE if lies else _BY_ANIMALS)
        noun = self.pick(verb.objects if lies else ANIMALS)
        subject = self.noun(noun, _SUBJECTS)
        if lies:
            possible = [tense for tense in possible if tense in ("present", "past")]
        tense = self.tense(subject, verb, possible)
        return self.finished(Clause(subject, verb, tense), full and not lies)

    def finished(self, clause: Clause, full: bool) -> Clause:
        """The clause with all that its verb needs and, if `full`, adverbials that it may have."""
        verb, frame = clause.verb, clause.verb.frame
        determiners = _NEGATED if clause.negated else _ANYTHING
        if frame in ("acc", "dat"):
            self._add_object(clause)
        elif frame == "count":
            determiners = _COUNTED_NOT if clause.negated else _COUNTED
            clause.direct = self.noun(self.pick(verb.objects), determiners, plural=1, largest=999)
        elif frame == "dit":
            clause.indirect = self._other(clause, DEFINITE)
            noun = self.pick(verb.objects)
            if clause.indirect.subject == "she":  # "gives her apples" could be her own apples
                clause.direct = self.noun(noun, DEFINITE, plural=0)
            else:
                clause.direct = self.thing(noun, determiners)
        elif frame in _PREPOSITIONS:
            english_word, german_word, case = _PREPOSITIONS[frame]
            if frame == "with":
                phrase = self.noun(self.pick(verb.objects), _SINGULAR)
            else:
                phrase = self._other(clause, DEFINITE)
            clause.complement = prepositional(english_word, german_word, phrase, case)
        elif frame == "go":
            clause.complement = self.towards(self.pick(verb.objects))
        elif frame in ("live", "arrive"):
            clause.complement = self.at(self.pick(verb.objects))
        elif frame == "from":
            place = self._place(self.pick(verb.objects))
            clause.complement = prepositional("from", "aus", place, DATIVE)
        elif frame == "put":
            clause.direct = self.thing(self.pick(verb.objects), determiners)
            clause.complement = self.spot(ACCUSATIVE)
        elif frame == "lie":
            clause.complement = self.spot(DATIVE)
        elif frame == "early":
            clause.complement = ("up early", "früh")
        if full and "x" not in verb.traits:
            self._add_adverbials(clause)
        return clause

    def _add_object(self, clause: Clause) -> None:
        verb, noun, negated = clause.verb, self.pick(clause.verb.objects), clause.negated
        if verb.english[0] == "have":
            phrase = self.noun(noun, _OWNED_NOT if negated else _OWNED)
        elif "person" in noun.classes:
            phrase = self._other(clause, DEFINITE if negated else _ANYONE)
        elif verb.frame == "dat":
            phrase = self.noun(noun, DEFINITE)
        else:
            largest = 999 if verb in _IN_BULK else 12
            phrase = self.thing(noun, _NEGATED if negated else _ANYTHING, largest)
        if verb.frame == "dat":
            clause.indirect = phrase
        else:
            clause.direct = phrase

    def _other(self, clause: Clause, determiners: tuple) -> Phrase:
        """A person who is not the subject: "I see me" and "Anna sees Anna" do not come up."""
        who = clause.subject.subject
        pronouns = 0 if clause.subject.noun in ANIMALS else 0.25
        while True:
            phrase = self.person(determiners, pronouns)
            same = phrase.subject == who or {phrase.subject, who} == {"I", "we"}
            if not (same or (phrase.kind != "pronoun" and phrase.subject in who)):
                return phrase

    def _add_adverbials(self, clause: Clause) -> None:
        verb, tense = clause.verb, clause.tense
        if tense in ("present", "past", "perfect") and not clause.negated and self.chance(0.16):
            clause.adverb = self.pick(LATE_ADVERBS if tense == "perfect" else _USUALLY)
        elif self.chance(0.5):
            times = _TIMES_OF[tense]
            clause.time = self.pick(times) if times else None
            if verb.frame == "early" and clause.time and clause.time[0] == "in the evening":
                clause.time = None
        if "p" in verb.traits and not clause.negated and self.chance(0.3):
            clause.place = self.at(self.pick(SITES))


@functools.cache
def _tense_options(person: str, verb: Verb, allowed: tuple) -> tuple:
    same = verb.english[0] == verb.english[2] and person != "3s"  # "they put": today or yesterday?
    return tuple(
        (tense, weight)
        for tense, weight in _TENSES
        if (not allowed or tense in allowed)
        and not (tense == "progressive" and "s" in verb.traits)
        and not (tense not in ("present", "past", "future") and "x" in verb.traits)
        and not (tense in PASTS and person == "2s")
        and not (tense in ("present", "past") and same)
    )
