"""How the demo language pair inflects and orders its words: numbers, noun phrases, clauses.

Cases are always in the order nominative, accusative, dative, genitive; genders are "m", "f", "n",
and "p" for the plural of all three.
"""

from __future__ import annotations

import dataclasses
import functools

from keras_transformer.data.demo_lexicon import ADJECTIVES, AUXILIARIES, Noun, Verb

NOMINATIVE, ACCUSATIVE, DATIVE, GENITIVE = range(4)

Pair = tuple[str, str]  # English, German

_STEMS = {"teuer": "teur", "müde": "müd"}  # before an ending
_ARTICLES = {
    "m": "der den dem des", "n": "das das dem des",
    "f": "die die der der", "p": "die die den der",
}  # fmt: skip
_STRONG = {"m": "er en em en", "n": "es es em en", "f": "e e er er", "p": "e e en er"}
_WEAK = {"m": "e en en en", "n": "e e en en", "f": "e e en en", "p": "en en en en"}
_MIXED = _WEAK | {"m": "er en en en", "n": "es es en en"}
_LIKE_EIN = {"m": "- en em es", "n": "- - em es", "f": "e e er er", "p": "e e en er"}
_LIKE_DIESER = _STRONG | {"m": "er en em es", "n": "es es em es"}

# English determiner -> German stem, endings of the determiner, endings of the adjective after it.
_DETERMINERS = {
    "the": ("", _ARTICLES, _WEAK),
    "this": ("dies", _LIKE_DIESER, _WEAK), "every": ("jed", _LIKE_DIESER, _WEAK),
    "a": ("ein", _LIKE_EIN, _MIXED),
    "my": ("mein", _LIKE_EIN, _MIXED), "your": ("dein", _LIKE_EIN, _MIXED),
    "his": ("sein", _LIKE_EIN, _MIXED), "her": ("ihr", _LIKE_EIN, _MIXED),
    "our": ("unser", _LIKE_EIN, _MIXED), "their": ("ihr", _LIKE_EIN, _MIXED),
    "some": ("einig", _LIKE_DIESER, _STRONG), "many": ("viel", _LIKE_DIESER, _STRONG),
}  # fmt: skip

# Subject and object form | nominative, accusative, dative | person.
PRONOUNS = {
    "I": ("me", ("ich", "mich", "mir"), "1s"),
    "you": ("you", ("du", "dich", "dir"), "2s"),
    "he": ("him", ("er", "ihn", "ihm"), "3s"),
    "she": ("her", ("sie", "sie", "ihr"), "3s"),
    "we": ("us", ("wir", "uns", "uns"), "pl"),
    "they": ("them", ("sie", "sie", "ihnen"), "pl"),
}
THIRD_PERSON = {
    "m": ("er", "ihn", "ihm"), "f": ("sie", "sie", "ihr"),
    "n": ("es", "es", "ihm"), "p": ("sie", "sie", "ihnen"),
}  # fmt: skip
RELATIVES = {
    "m": ("der", "den", "dem"), "f": ("die", "die", "der"),
    "n": ("das", "das", "dem"), "p": ("die", "die", "denen"),
}  # fmt: skip

_ONES = (  # noqa: SIM905
    "one two three four five six seven eight nine ten eleven twelve "
    "thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()  # noqa: SIM905
_EINS = (  # noqa: SIM905
    "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf "
    "dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn"
).split()
_ZEHNER = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()  # noqa: SIM905

EARLY_ADVERBS = (("often", "oft"), ("always", "immer"))
LATE_ADVERBS = (("never", "nie"), ("already", "schon"))
_CONTRACTIONS = {"in dem": "im", "in das": "ins", "an dem": "am", "zu dem": "zum", "zu der": "zur"}
_MODALS = {"can": "can", "must": "must", "should": "should", "could": "could", "future": "will"}
_PRESENT_TO = {"want": ("want", "wants"), "must": ("have", "has")}
_PAST_TO = {"had_to": ("had", "have"), "wanted": ("wanted", "want")}


@dataclasses.dataclass(frozen=True)
class Phrase:
    """A noun phrase or pronoun: English as subject and as object, German by case.

    `kind` is "pronoun", "definite" or "indefinite"; `person` "1s", "2s", "3s" or "pl";
    `gender` "m", "f", "n" or "p" (plural), what a German pronoun or relative must agree with.
    `negative` holds the German cases under negation with "kein", where they exist.
    """

    subject: str
    object: str
    german: tuple[str, ...]
    kind: str
    person: str
    gender: str
    noun: Noun | None = None
    negative: tuple[str, ...] | None = None


def english_number(number: int) -> str:
    """The number, 1 to 999, in English words: 316 -> "three hundred and sixteen".

    Raises:
        ValueError: if the number is not in 1 to 999.
    """
    hundreds, rest = divmod(_checked(number), 100)
    words = []
    if hundreds:
        words.append(f"{_ONES[hundreds - 1]} hundred")
    if rest:
        tens, ones = divmod(rest, 10)
        if rest < 20:
            words.append(_ONES[rest - 1])
        else:
            words.append(_TENS[tens - 2] + (f"-{_ONES[ones - 1]}" if ones else ""))
    return " and ".join(words)


def german_number(number: int) -> str:
    """The number, 1 to 999, as a German word: 316 -> "dreihundertsechzehn".

    Raises:
        ValueError: if the number is not in 1 to 999.
    """
    hundreds, rest = divmod(_checked(number), 100)
    word = f"{_before(hundreds)}hundert" if hundreds else ""
    if 0 < rest < 20:
        return word + _EINS[rest - 1]
    tens, ones = divmod(rest, 10)
    return word + (f"{_before(ones)}und" if ones else "") + (_ZEHNER[tens - 2] if tens else "")


def _before(digit: int) -> str:
    return "ein" if digit == 1 else _EINS[digit - 1]  # "eins" loses its s inside a word


def _checked(number: int) -> int:
    if not 1 <= number <= 999:
        raise ValueError(f"number must be from 1 to 999 to be written out. Received: {number}")
    return number


def _declined(stem: str, endings: dict[str, str], gender: str) -> list[str]:
    return [stem + ending.replace("-", "") for ending in endings[gender].split()]


@functools.cache
def noun_phrase(
    noun: Noun,
    determiner: str | int = "",
    adjective: str = "",
    plural: bool = False,
    owner: Phrase | None = None,
) -> Phrase:
    """A noun with what stands before it, in all cases.

    Args:
        noun: the noun.
        determiner: an English determiner ("the", "a", "this", "every", "some", "many", a
            possessive), a number of at least 2, or "" for none.
        adjective: an English adjective, or "".
        plural: whether the noun is plural ("this" becomes "these"); a number makes it so.
        owner: a person in front with 's, which replaces the determiner and is a genitive in German.

    Example:
        >>> apple = next(noun for noun in NOUNS if noun.english == "apple")
        >>> noun_phrase(apple, 2, "red").german[DATIVE]
        'zwei roten Äpfeln'
    """
    plural = plural or isinstance(determiner, int)
    gender = "p" if plural else noun.gender
    after = ""
    if owner is not None:
        english, heads, endings = f"{owner.subject}'s", [""] * 4, _STRONG
        if owner.noun is None:  # a name goes in front: Annas Hund
            heads = [f"{owner.subject}s"] * 4
        else:  # a noun goes behind: der Hund des Lehrers
            heads, endings = _ARTICLES[gender].split(), _WEAK
            after = " " + owner.german[GENITIVE]
    elif isinstance(determiner, int):
        english, heads = english_number(determiner), [german_number(determiner)] * 4
        endings = _STRONG
    elif determiner:
        english = "these" if plural and determiner == "this" else determiner
        stem, table, endings = _DETERMINERS[determiner]
        heads = _declined(stem, table, gender)
    else:
        english, heads, endings = "", [""] * 4, _STRONG
    words = noun.german[plural]
    german = _join(heads, endings, adjective, gender, words, after)
    negative = None
    if determiner in ("", "a") and owner is None:
        negative = _join(_declined("kein", _LIKE_EIN, gender), _MIXED, adjective, gender, words, "")
    name = noun.english_plural if plural else noun.english
    rest = f"{adjective} {name}" if adjective else name
    if english == "a" and rest[0] in "aeiou":
        english = "an"
    text = f"{english} {rest}" if english else rest
    some = negative is not None or isinstance(determiner, int) or determiner in ("some", "many")
    kind, person = "indefinite" if some else "definite", "pl" if plural else "3s"
    return Phrase(text, text, german, kind, person, gender, noun, negative)


def _join(heads, endings, adjective, gender, words, after) -> tuple[str, ...]:
    if not adjective:
        return tuple(f"{h} {w}{after}" if h else w for h, w in zip(heads, words, strict=True))
    german = ADJECTIVES[adjective]
    forms = _declined(_STEMS.get(german, german), endings, gender)
    return tuple(
        f"{head} {form} {word}{after}" if head else f"{form} {word}"
        for head, form, word in zip(heads, forms, words, strict=True)
    )


def name_phrase(name: str, gender: str) -> Phrase:
    """A proper name, which German does not inflect but for the genitive."""
    return Phrase(name, name, (name, name, name, name + "s"), "definite", "3s", gender)


def pronoun_phrase(pronoun: str) -> Phrase:
    """A personal pronoun, by its English subject form: "I", "you", "he", "she", "we", "they"."""
    english, german, person = PRONOUNS[pronoun]
    gender = {"he": "m", "she": "f", "we": "p", "they": "p"}.get(pronoun, "")
    return Phrase(pronoun, english, german, "pronoun", person, gender)


def it_phrase(antecedent: Phrase) -> Phrase:
    """The pronoun for a thing or an animal: "it" or "they", with the German noun's gender."""
    german = THIRD_PERSON[antecedent.gender]
    if antecedent.person == "pl":
        return Phrase("they", "them", german, "pronoun", "pl", "p")
    return Phrase("it", "it", german, "pronoun", "3s", antecedent.gender)


@dataclasses.dataclass
class Clause:
    """What both languages say: who does what to whom, when and where; `verb` None is "to be"."""

    subject: Phrase
    verb: Verb | None
    tense: str = "present"
    negated: bool = False
    indirect: Phrase | None = None
    direct: Phrase | None = None
    complement: Pair | None = None  # direction, prepositional object, predicate
    place: Pair | None = None
    time: Pair | None = None
    adverb: Pair | None = None


def _english_verb(clause: Clause, inverted: bool) -> tuple[str, str]:
    """The auxiliary ("" for none) and the rest of the verb."""
    person, tense, split = clause.subject.person, clause.tense, inverted or clause.negated
    third = person == "3s"
    am = "am" if person == "1s" else "is" if third else "are"
    be = clause.verb is None
    base, thirds, past, participle, ing = (
        clause.verb.english if clause.verb else ("be", "is", "was", "been", "being")
    )
    if be and tense == "present":
        return am, ""
    if be and tense == "past":
        return ("were" if person in ("pl", "2s") else "was"), ""
    if tense == "present":
        if split:
            return ("does" if third else "do"), base
        return "", thirds if third else base
    if tense == "past":
        return ("did", base) if split else ("", past)
    if tense == "perfect":
        return ("has" if third else "have"), participle
    if tense == "progressive":
        return am, ing
    if tense == "want" or (tense == "must" and clause.negated):
        plain, thirds = _PRESENT_TO[tense]
        if split:
            return ("does" if third else "do"), f"{plain} to {base}"
        return "", f"{thirds if third else plain} to {base}"
    if tense in _PAST_TO:
        past, plain = _PAST_TO[tense]
        return ("did", f"{plain} to {base}") if split else ("", f"{past} to {base}")
    return _MODALS[tense], base


def english(clause: Clause, inverted: bool = False, subject: str = "") -> str:
    """The English clause; no capital, no full stop.

    Args:
        clause: what to say.
        inverted: whether the auxiliary comes before the subject, as in a question.
        subject: a question word or relative pronoun to stand for the subject.
    """
    auxiliary, verb = _english_verb(clause, inverted)
    who = subject or clause.subject.subject
    if clause.negated and auxiliary == "can":
        words = ["can", who, "not"] if inverted else [who, "cannot"]
    else:
        words = [auxiliary, who] if inverted else [who, auxiliary]
        words += ["not" if clause.negated else ""]
    words += [clause.adverb[0] if clause.adverb else "", verb]
    direct = clause.direct.object if clause.direct else ""
    particle = clause.verb.particle if clause.verb else ""
    if particle == "up" and clause.direct and clause.direct.kind == "pronoun":
        words += [direct, particle]
    else:
        words += [particle, clause.indirect.object if clause.indirect else "", direct]
    words += [part[0] for part in (clause.complement, clause.place, clause.time) if part]
    return " ".join(word for word in words if word)


def _german_verb(clause: Clause) -> tuple[str, str, str]:
    """The finite verb, the words at the end of the clause, and the separable prefix."""
    verb, tense, person = clause.verb, clause.tense, clause.subject.person
    if verb is None:
        if tense in ("present", "past"):
            return AUXILIARIES["sein" if tense == "present" else "war"][person], "", ""
        if tense == "perfect":
            return AUXILIARIES["sein"][person], "gewesen", ""
        return AUXILIARIES[tense][person], "sein", ""
    if tense in ("present", "progressive"):
        return verb.present[person], "", verb.prefix
    if tense == "past":
        return verb.past[person], "", verb.prefix
    if tense == "perfect":
        return AUXILIARIES[verb.auxiliary][person], verb.participle, ""
    return AUXILIARIES[tense][person], verb.infinitive, ""


def german(clause: Clause, order: str = "statement", front: str = "", subject: str = "") -> str:
    """The German clause; no capital, no full stop.

    Args:
        clause: what to say.
        order: "statement" (verb second), "question" (verb first, or second after `front`),
            "subordinate" (verb last).
        front: words before the verb of a statement or question; the subject then comes after it.
        subject: a question word or relative pronoun to stand for the subject.
    """
    finite, final, prefix = _german_verb(clause)
    who = subject or clause.subject.german[NOMINATIVE]
    pronouns, definite, indefinite = [], [], []
    negation = "nicht" if clause.negated else ""
    for phrase, case in ((clause.indirect, DATIVE), (clause.direct, ACCUSATIVE)):
        if phrase is None:
            continue
        if phrase.kind == "indefinite" and clause.negated and phrase.negative:
            indefinite.append(phrase.negative[case])
            negation = ""
        else:
            kinds = {"pronoun": pronouns, "definite": definite, "indefinite": indefinite}
            kinds[phrase.kind].append(phrase.german[case])
    adverb = clause.adverb[1] if clause.adverb else ""
    late = clause.adverb in LATE_ADVERBS
    middle = [*pronouns, clause.time[1] if clause.time else "", "" if late else adverb, *definite]
    middle += [adverb if late else "", *indefinite, clause.place[1] if clause.place else ""]
    middle += [negation, clause.complement[1] if clause.complement else ""]
    if order == "subordinate":
        words = [who, *middle, final, prefix + finite]
    elif front or order == "question":
        words = [front, finite, who, *middle, final, prefix]
    else:
        words = [who, finite, *middle, final, prefix]
    return " ".join(word for word in words if word)


def prepositional(english_word: str, german_word: str, phrase: Phrase, case: int) -> Pair:
    """A preposition and its phrase, contracted where German does so: "in dem" to "im"."""
    text = f"{german_word} {phrase.german[case]}"
    for long, short in _CONTRACTIONS.items():
        if text.startswith(long + " "):
            text = short + text[len(long) :]
    return f"{english_word} {phrase.object}", text


def with_relative(head: Phrase, clause: Clause, case: int) -> Phrase:
    """The head followed by a relative clause, between commas in German.

    Args:
        head: a phrase with a noun.
        clause: what is said of it, with nothing where the head belongs, but for the subject.
        case: the head's case in the clause; NOMINATIVE if it is the subject.
    """
    who = "who" if "person" in head.noun.classes else "that"
    relative = RELATIVES[head.gender][case]
    if case == NOMINATIVE:
        first = english(clause, subject=who)
        second = german(clause, "subordinate", subject=relative)
    else:
        first = f"{who} {english(clause)}"
        second = f"{relative} {german(clause, 'subordinate')}"
    return dataclasses.replace(
        head,
        subject=f"{head.subject} {first}",
        object=f"{head.object} {first}",
        german=tuple(f"{form}, {second}," for form in head.german),
    )


def both(first: Phrase, second: Phrase) -> Phrase:
    """Two subjects joined by "and"."""
    text = f"{first.subject} and {second.subject}"
    german_forms = tuple(f"{a} und {b}" for a, b in zip(first.german, second.german, strict=True))
    return Phrase(text, text, german_forms, "definite", "pl", "p")
