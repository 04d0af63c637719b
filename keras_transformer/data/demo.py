"""A built-in English-German corpus, made by a small grammar: training with no download.

Every English sentence has exactly one German one, so a model that has learned the grammar reaches
a BLEU near 100 on sentences it has never seen. What it must learn is what attention is for: the
verb in second place and at the end of subordinate clauses, separable verbs, gender, case and
adjective endings, numbers, negation, and the pronoun for "it" in the gender of its noun.

The mapping, where the languages leave a choice:

- present and progressive -> Präsens; past -> Präteritum; perfect -> Perfekt; "will" -> "werden";
  "should" -> "sollte"; "want to" -> "wollen"; "must", "have to" -> "müssen".
- "you" -> "du"; "know" -> "kennen" (a person) or "wissen" (a fact).
- "when" -> "als" in the past, "wenn" otherwise, "wann" in a question.
- The middle of a German clause: subject, pronoun, time, "oft" or "immer", dative, accusative,
  place, "nicht", direction; "nie" and "schon" come after definite objects, before indefinite ones.
- Negation is "kein" with an indefinite object, otherwise "nicht".
- "into" and "put on" take the accusative, "in" and "lie on" the dative; "in dem" -> "im" and so on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from keras_transformer.data.demo_clauses import (
    ANIMALS,
    DEFINITE,
    FREE,
    PASTS,
    PERSONS,
    SITES,
    Speaker,
    verbs,
)
from keras_transformer.data.demo_grammar import (
    ACCUSATIVE,
    DATIVE,
    NOMINATIVE,
    Clause,
    Pair,
    Phrase,
    english,
    german,
    it_phrase,
    pronoun_phrase,
    with_relative,
)
from keras_transformer.data.demo_lexicon import ADJECTIVES, VERBS, nouns_of

MAX_SENTENCES = 500_000
_MAX_FAILURES = 10_000  # draws in a row that gave nothing new

_NOT_PAST = ("present", "perfect", "future", "progressive", "can", "must", "want", "should")
_HOPES = ("future", "can", "perfect")
_COMPOSED = ("perfect", "future", "can", "must", "want", "should")
_PLANNED = ("past", "future", "must")
_EXISTING = nouns_of("animal", "food", "thing")
_DESCRIBABLE = nouns_of("animal", "food", "mass", "drink", "thing", "open", "place")
_WILLED = tuple(verb for verb in FREE if not {"x", "s"} & set(verb.traits))
_ACTIVE = tuple(verb for verb in FREE if "x" not in verb.traits)
_SAYING = tuple(verb for verb in VERBS if verb.frame == "that")
_WEATHER = tuple(verb for verb in VERBS if verb.frame == "weather")
_ASKED = verbs("see", "buy", "read", "open", "sleep", "need", "work", "help", "go", "play")
_SOMEWHERE = verbs("go", "run", "come", "live", "work", "sleep", "wait", "play", "buy", "find")
_EVENTS = verbs("arrive", "come", "get", "see", "open", "call", "sleep", "visit", "work", "sing")
_TO_PEOPLE = tuple(v for v in FREE if v.frame in ("acc", "dat") and PERSONS[0] in v.objects)
_TO_THINGS = tuple(
    v for v in FREE if v.frame in ("acc", "dit", "put") and PERSONS[0] not in v.objects
)
_TO_COUNTABLES = tuple(v for v in _TO_THINGS if not all(noun.mass for noun in v.objects))
_HAVING_REASONS = verbs("buy", "sell", "eat", "drink", "read", "wash", "find", "carry")
_TWO_DEEDS = (  # to one thing; the second is not done after "but"
    ("buy", "eat", "and"), ("find", "need", "but"), ("look", "find", "but"), ("see", "buy", "but"),
    ("open", "close", "but"), ("buy", "wash", "and"), ("wash", "repair", "but"),
    ("find", "sell", "and"), ("write", "read", "but"),
)  # fmt: skip
_RELATIVE_TENSES = ("present", "past", "perfect")
_SEE = verbs("see")
_BY_ANIMALS_ALONE = verbs("sleep", "eat", "drink", "run", "follow")
_SIMPLY_TO_PEOPLE = tuple(verb for verb in _TO_PEOPLE if not verb.prefix and not verb.particle)
_REASONS = (("because", "weil"), ("although", "obwohl"))
_HINDERING = ("tired", "sick", "hungry", "old", "expensive", "heavy", "cold", "small")
_THE = (("the", 1),)
_EXISTENT = (("a", 2), ("number", 8), ("many", 1), ("some", 1))


class _Sentences(Speaker):
    """Draws sentences: `sentence()` gives one English-German pair; same seed, same sentences."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._kinds = (
            (self.statement, 40), (self.described, 5), (self.existing, 5), (self.question, 7),
            (self.asking, 8), (self.saying, 7), (self.reasoning, 8), (self.timing, 6),
            (self.it, 9), (self.relating, 6), (self.compound, 3),
        )  # fmt: skip

    # Sentences, as English and German without capital and full stop.

    def statement(self) -> Pair:
        """A main clause; often a time or a place comes first, and German keeps its verb second."""
        clause = self.clause()
        front = None
        if clause.time and (clause.negated or self.chance(0.65)):
            front, clause.time = clause.time, None
        elif clause.place and self.chance(0.3):
            front, clause.place = clause.place, None
        if front is None:
            return english(clause), german(clause)
        return f"{front[0]} {english(clause)}", german(clause, front=front[1])

    def described(self) -> Pair:
        """Somebody or something is tired, old, new."""
        clause = self.being(self.chance(0.5))
        return english(clause), german(clause)

    def being(self, somebody: bool) -> Clause:
        """Somebody or something, "to be" and an adjective, which German does not inflect there."""
        if somebody:
            subject = self.subject(DEFINITE)
            noun = subject.noun or PERSONS[0]
        else:
            noun = self.pick(_DESCRIBABLE)
            subject = self.noun(noun, DEFINITE)
        tenses = ("present", "past") if subject.person != "2s" else ("present",)
        tense = self.pick((*tenses, *tenses, "future", "perfect") if somebody else tenses)
        clause = Clause(subject, None, tense, self.chance(0.15))
        adjective = self.pick(_unsaid(subject, noun.predicates))
        clause.complement = (adjective, ADJECTIVES[adjective])
        if subject.noun and self.chance(0.2) and not clause.negated:
            clause.complement = (f"very {adjective}", f"sehr {ADJECTIVES[adjective]}")
        return clause

    def existing(self) -> Pair:
        """There is something somewhere: "es gibt" with the accusative."""
        noun = self.pick(_EXISTING)
        phrase = self.noun(noun, _EXISTENT, largest=999)
        where, past = self.at(self.pick(SITES)), self.chance(0.4)
        be = ("were" if past else "are") if phrase.person == "pl" else ("was" if past else "is")
        gives, there = "gab" if past else "gibt", phrase.german[ACCUSATIVE]
        if self.chance(0.4):
            return f"{where[0]} there {be} {phrase.object}", f"{where[1]} {gives} es {there}"
        return f"there {be} {phrase.object} {where[0]}", f"es {gives} {there} {where[1]}"

    def question(self) -> Pair:
        """Yes or no."""
        kind = self.pick(("being", "plain", "composed", "composed"))
        if kind == "being":
            clause = self.being(self.chance(0.6))
        elif kind == "plain":  # a capitalised full verb: a few of them, so that each is learned
            clause = self.clause(self.singular(), ("present", "past"), _ASKED)
        else:
            clause = self.clause(tenses=_COMPOSED)
        clause.negated = False
        return english(clause, inverted=True) + "?", german(clause, "question") + "?"

    def singular(self) -> Phrase:
        """A subject in the third person singular."""
        subject = self.subject()
        while subject.person != "3s":
            subject = self.subject()
        return subject

    def asking(self) -> Pair:
        """Who, whom, what, where, why, when, how many."""
        kind = self.pick(("who", "whom", "what", "where", "why", "when", "how many"))
        if kind == "who":
            somebody = Phrase("who", "whom", ("wer", "wen", "wem"), "definite", "3s", "m")
            clause = self.clause(somebody)
            return english(clause) + "?", german(clause) + "?"
        if kind in ("why", "when"):
            clause = self.clause(tenses=_PLANNED if kind == "when" else (), full=False)
            word = "warum" if kind == "why" else "wann"
        elif kind == "whom":
            clause = self.clause(verbs=_TO_PEOPLE, full=False)
            word = "wen" if clause.verb.frame == "acc" else "wem"
            clause.direct = clause.indirect = None
            kind = "who"
        elif kind == "what":
            clause = self.clause(verbs=_TO_THINGS, full=False)
            clause.direct, word = None, "was"
        elif kind == "how many":
            clause = self.clause(verbs=_TO_COUNTABLES, full=False)
            noun = self.pick([noun for noun in clause.verb.objects if not noun.mass])
            clause.direct = None
            kind += f" {noun.english_plural}"
            word = f"wie viele {noun.german[1][ACCUSATIVE]}"
        else:
            clause = self.clause(verbs=_SOMEWHERE, full=False)
            frame = clause.verb.frame
            word = {"go": "wohin", "from": "woher"}.get(frame, "wo")
            if frame in ("go", "from", "live"):
                clause.complement = ("from", "") if frame == "from" else None
        return f"{kind} {english(clause, inverted=True)}?", german(clause, "question", word) + "?"

    def saying(self) -> Pair:
        """Somebody says, knows, believes or hopes that."""
        matrix = Clause(self.subject(DEFINITE), self.pick(_SAYING))
        matrix.tense = "past" if matrix.subject.person != "2s" and self.chance(0.5) else "present"
        hoping = matrix.verb.english[0] == "hope"
        matrix.negated = not hoping and self.chance(0.15)
        if hoping:
            matrix.tense = "present"
        if self.chance(0.2) and not hoping:
            inner = self.being(self.chance(0.5))
            inner.tense = matrix.tense if inner.subject.person != "2s" else "present"
        else:
            tenses = _HOPES if hoping else PASTS if matrix.tense == "past" else _NOT_PAST
            inner = self.clause(tenses=tenses, full=not matrix.negated)
        inner.negated = inner.negated and not matrix.negated
        asked = matrix.tense == "present" and not matrix.negated and self.chance(0.15)
        order = "question" if asked else "statement"
        mark = "?" if asked else ""
        return (
            f"{english(matrix, inverted=asked)} that {english(inner)}{mark}",
            f"{german(matrix, order)}, dass {german(inner, 'subordinate')}{mark}",
        )

    def reasoning(self) -> Pair:
        """Because or although, before or after the main clause."""
        subject = self.taken_up()
        main = self.clause(subject, verbs=_ACTIVE, full=False)
        objects = [phrase for phrase in (main.direct, main.indirect) if phrase]
        if all(phrase.kind != "indefinite" for phrase in objects):
            main.negated = self.chance(0.15)
        past = main.tense in PASTS
        again = _taken_up_by(subject)
        words = self.pick(_REASONS)
        if self.chance(0.55):
            reason = self.reason(again, past, ("tired", "sick", "hungry", "happy"))
            words = _REASONS[_speaks_against(reason)]
        elif self.chance(0.5):
            tenses = ("had_to", "wanted") if past else ("must", "want")
            reason = self.clause(again, tenses, _WILLED, full=False)
        else:
            reason = self.weather(past)
        return self.joined(main, reason, *words)

    def reason(self, subject: Phrase, past: bool, adjectives: Sequence[str]) -> Clause:
        """A state to act because of or in spite of."""
        adjective = self.pick(adjectives)
        reason = Clause(subject, None, "past" if past else "present", self.chance(0.15))
        reason.complement = (adjective, ADJECTIVES[adjective])
        return reason

    def weather(self, past: bool) -> Clause:
        """It rains or snows."""
        it = Phrase("it", "it", ("es",) * 3, "pronoun", "3s", "n")
        return Clause(it, self.pick(_WEATHER), "past" if past else "progressive")

    def timing(self) -> Pair:
        """When: "als" in the past, else "wenn"."""
        past = self.chance(0.55)
        tenses = ("past",) if past else ("present", "future", "can", "must")
        main = self.clause(tenses=tenses, verbs=_ACTIVE, full=False)
        if self.chance(0.15):
            event = self.weather(past)
            event.tense = "past" if past else "present"
        else:
            event = self.clause(None, tenses[:1], _EVENTS, full=False)
        return self.joined(main, event, "when", "als" if past else "wenn")

    def joined(self, main: Clause, other: Clause, english_word: str, german_word: str) -> Pair:
        """A main and a subordinate clause, either first; a noun comes before its pronoun."""
        if self.chance(0.6):
            return (
                f"{english(main)} {english_word} {english(other)}",
                f"{german(main)}, {german_word} {german(other, 'subordinate')}",
            )
        if other.subject.subject in ("he", "she", "they"):
            main.subject, other.subject = other.subject, main.subject
        return (
            f"{english_word} {english(other)}, {english(main)}",
            f"{german_word} {german(other, 'subordinate')}, {german(main, 'question')}",
        )

    def it(self) -> Pair:
        """The pronoun of a thing: "it" is "er", "sie" or "es" by the gender of its German noun."""
        return self.weighted(((self._it_is, 4), (self._done_to_it, 4), (self._it_does, 2)))()

    def _it_is(self) -> Pair:
        clause = self.clause(verbs=_HAVING_REASONS, full=False)
        past = clause.tense in PASTS
        adjectives = _unsaid(clause.direct, clause.direct.noun.predicates)
        reason = self.reason(it_phrase(clause.direct), past, adjectives)
        because, weil = _REASONS[_speaks_against(reason)]
        return (
            f"{english(clause)} {because} {english(reason)}",
            f"{german(clause)}, {weil} {german(reason, 'subordinate')}",
        )

    def _done_to_it(self) -> Pair:
        first, second, word = self.pick(_TWO_DEEDS)
        (first,), (second,) = verbs(first), verbs(second)
        noun = self.pick([noun for noun in first.objects if noun in second.objects])
        subject = self.taken_up()
        clause = Clause(subject, first, self.tense(subject, first, ("present", "past", "perfect")))
        clause.direct = self.thing(noun)
        tense = clause.tense
        if "x" in second.traits and tense == "perfect":
            tense = "present"
        then = Clause(_taken_up_by(subject), second, tense, negated=word == "but")
        then.direct = it_phrase(clause.direct)
        return _coordinated(clause, then, word)

    def _it_does(self) -> Pair:
        tense = (self.pick(("present", "past")),)
        clause = Clause(self.subject(), self.pick(_SEE), tense[0])
        while clause.subject.person == "2s":
            clause.subject = self.subject()
        clause.direct = self.noun(self.pick(ANIMALS), DEFINITE)
        deed = self.clause(it_phrase(clause.direct), tense, _BY_ANIMALS_ALONE, full=False)
        if "p" in deed.verb.traits:
            deed.place = self.at(self.pick(SITES))
        word = "als" if tense[0] == "past" else "wenn"
        return (
            f"{english(clause)} when {english(deed)}",
            f"{german(clause)}, {word} {german(deed, 'subordinate')}",
        )

    def relating(self) -> Pair:
        """Relative clauses, on a subject or at the end of the sentence."""
        if self.chance(0.35):  # The woman visits the man who lives in the village.
            clause = self.clause(tenses=("present", "past"), verbs=_SIMPLY_TO_PEOPLE, full=False)
            someone = self._related_person()
            if clause.verb.frame == "dat":
                clause.indirect = someone
            else:
                clause.direct = someone
        elif self.chance(0.5):  # The man who lives in the village visits the woman.
            clause = self.clause(self._related_person(), full=False)
        else:  # The book that the man reads is old.
            verb = self.pick(_TO_COUNTABLES)
            noun = self.pick([noun for noun in verb.objects if not noun.mass])
            inner = self.clause(None, _RELATIVE_TENSES, (verb,), full=False)
            inner.direct = None
            head = self.noun(noun, (("the", 1),), 0.2)
            adjective = self.pick(_unsaid(head, noun.predicates))
            clause = Clause(with_relative(head, inner, ACCUSATIVE), None)
            clause.tense = "past" if inner.tense in PASTS else "present"
            clause.complement = (adjective, ADJECTIVES[adjective])
        return english(clause), german(clause)

    def _related_person(self) -> Phrase:
        """The boy who ..., whether he does it or it is done to him."""
        head = self.noun(self.pick(PERSONS), (("the", 1),), 0.2)
        if self.chance(0.6):
            return with_relative(head, self.clause(head, _RELATIVE_TENSES, full=False), NOMINATIVE)
        inner = self.clause(None, _RELATIVE_TENSES, _TO_PEOPLE, full=False)
        case = DATIVE if inner.verb.frame == "dat" else ACCUSATIVE
        inner.direct = inner.indirect = None
        return with_relative(head, inner, case)

    def compound(self) -> Pair:
        """Two main clauses, with "and" or "but"."""
        first = self.clause(tenses=_RELATIVE_TENSES, full=False)
        second = self.clause(tenses=(first.tense,), full=False)
        return _coordinated(first, second, self.pick(("and", "but")))

    def sentence(self) -> Pair:
        """A whole sentence, English and German, of at least four English words."""
        source = target = ""
        while source.count(" ") < 3:
            source, target = self.weighted(self._kinds)()
        return _finished(source), _finished(target)


def _speaks_against(reason: Clause) -> bool:
    """Whether one acts "although", not "because", it is so."""
    return (reason.complement[0] in _HINDERING) != reason.negated


def _unsaid(phrase: Phrase, adjectives: Sequence[str]) -> list[str]:
    """The adjectives that still say something: not "my big bird is big"."""
    said = phrase.subject.split()
    contrary = {"new": "old", "old": "new", "cheap": "expensive", "expensive": "cheap"}
    return [word for word in adjectives if word not in said and contrary.get(word) not in said]


def _taken_up_by(subject: Phrase) -> Phrase:
    """The pronoun for a person already named."""
    if subject.kind == "pronoun":
        return subject
    return pronoun_phrase({"m": "he", "f": "she", "p": "they"}[subject.gender])


def _coordinated(first: Clause, second: Clause, word: str) -> Pair:
    comma, und = ("", "und") if word == "and" else (",", "aber")
    return (
        f"{english(first)}{comma} {word} {english(second)}",
        f"{german(first)}{comma} {und} {german(second)}",
    )


def _finished(text: str) -> str:
    text = text[0].upper() + text[1:] + ("" if text.endswith("?") else ".")
    return text.replace(",.", ".").replace(",?", "?").replace(",,", ",")


@dataclasses.dataclass(frozen=True)
class DemoCorpus:
    """Three splits, each a list of English sentences and the list of their German translations."""

    train: tuple[list[str], list[str]]
    valid: tuple[list[str], list[str]]
    test: tuple[list[str], list[str]]


def make_demo_corpus(
    num_train: int = 30_000, num_valid: int = 500, num_test: int = 1_000, seed: int = 1
) -> DemoCorpus:
    """Makes the corpus: no sentence comes twice, in either language, within or across splits.

    Args:
        num_train: sentence pairs to train on.
        num_valid: sentence pairs to watch training with.
        num_test: sentence pairs for the final score. With the same seed they, and then those of
            `valid`, are the same however large the splits after them are.
        seed: another seed, other sentences; the same ones on every platform.

    Returns:
        The three splits.

    Raises:
        ValueError: if a size is negative or no integer, the seed is no integer, or all together
            are more sentences than the grammar is good for.

    Example:
        >>> english, german = make_demo_corpus(num_train=1, num_valid=0, num_test=0).train
    """
    sizes = {"num_test": num_test, "num_valid": num_valid, "num_train": num_train}
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise ValueError(f"{name} must be an integer, 0 or more. Received: {size!r}")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise ValueError(f"seed must be an integer. Received: {seed!r}")
    if sum(sizes.values()) > MAX_SENTENCES:
        raise ValueError(
            f"the demo grammar gives at most {MAX_SENTENCES} distinct sentences in all. "
            f"Received: {sizes}; ask for fewer, or train on a real corpus"
        )
    speaker = _Sentences(seed)
    seen_english, seen_german = set(), set()
    splits = []
    for size in sizes.values():
        sources, targets = [], []
        failures = 0
        while len(sources) < size:
            source, target = speaker.sentence()
            if source in seen_english or target in seen_german:
                failures += 1
                if failures > _MAX_FAILURES:
                    raise ValueError(
                        f"the demo grammar ran out after {len(seen_english)} distinct sentences. "
                        f"Received: {sizes}; ask for fewer, or train on a real corpus"
                    )
                continue
            failures = 0
            seen_english.add(source)
            seen_german.add(target)
            sources.append(source)
            targets.append(target)
        splits.append((sources, targets))
    test, valid, train = splits
    return DemoCorpus(train=train, valid=valid, test=test)
