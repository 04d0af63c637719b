"""The demo corpus: the grammar's German is right, and the splits are what they say they are."""

import hashlib
import os
import pathlib
import re
import subprocess
import sys
import time
from collections import Counter

import pytest

from keras_transformer.data import demo
from keras_transformer.data.demo import make_demo_corpus
from keras_transformer.data.demo_clauses import verbs
from keras_transformer.data.demo_grammar import (
    ACCUSATIVE,
    DATIVE,
    GENITIVE,
    NOMINATIVE,
    Clause,
    english,
    english_number,
    german,
    german_number,
    it_phrase,
    name_phrase,
    noun_phrase,
    prepositional,
    pronoun_phrase,
    with_relative,
)
from keras_transformer.data.demo_lexicon import ADJECTIVES, NOUNS, VERBS

# SHA-256 of the seed-1 corpus of 200, 50 and 50 sentences, one "English<tab>German" a line.
# To be renewed, with an entry in the changelog, when the grammar is changed on purpose.
GOLDEN = "99de1c6ea05854e283f3acdae5316eda404c4c9a7d1885b6f9ac4c5cbc329b54"


def noun(name, *arguments, **options):
    return noun_phrase(next(n for n in NOUNS if n.english == name), *arguments, **options)


def clause(subject, verb, tense="present", **parts):
    subject = subject if not isinstance(subject, str) else pronoun_phrase(subject)
    return Clause(subject, verbs(verb)[0] if verb else None, tense, **parts)


def corpus_text(corpus):
    splits = (corpus.train, corpus.valid, corpus.test)
    return "".join(f"{e}\t{g}\n" for split in splits for e, g in zip(*split, strict=True))


def sha256(corpus):
    return hashlib.sha256(corpus_text(corpus).encode("utf-8")).hexdigest()


@pytest.fixture(scope="module")
def corpus():
    return make_demo_corpus()


THE_MAN = noun("man", "the")
THE_BOOK = noun("book", "the")
PAIRS = {
    "verb second after an adverbial": (
        "yesterday the old man bought a red apple",
        "gestern kaufte der alte Mann einen roten Apfel",
        clause(noun("man", "the", "old"), "buy", "past", direct=noun("apple", "a", "red")),
        {"front": ("yesterday", "gestern")},
    ),
    "separable verb": (
        "the woman opens the window",
        "die Frau macht das Fenster auf",
        clause(noun("woman", "the"), "open", direct=noun("window", "the")),
        {},
    ),
    "separable verb last in a subordinate clause": (
        "the woman opens the window",
        "die Frau das Fenster aufmacht",
        clause(noun("woman", "the"), "open", direct=noun("window", "the")),
        {"order": "subordinate"},
    ),
    "separable verb in the perfect": (
        "we have picked her up at the station",
        "wir haben sie am Bahnhof abgeholt",
        clause(
            "we", "pick", "perfect", direct=pronoun_phrase("she"),
            place=prepositional("at", "an", noun("station", "the"), DATIVE),
        ),
        {},
    ),
    "modal in a question": (
        "can you call the doctor",
        "kannst du den Arzt anrufen",
        clause("you", "call", "can", direct=noun("doctor", "the")),
        {"order": "question"},
    ),
    "modal last of all": (
        "I must read this letter",
        "ich diesen Brief lesen muss",
        clause("I", "read", "must", direct=noun("letter", "this")),
        {"order": "subordinate"},
    ),
    "perfect with sein": (
        "Anna has gone to the school",
        "Anna ist zur Schule gegangen",
        clause(
            name_phrase("Anna", "f"), "go", "perfect",
            complement=prepositional("to", "zu", noun("school", "the"), DATIVE),
        ),
        {},
    ),
    "two objects": (
        "my sister gives the small child a new ball",
        "meine Schwester gibt dem kleinen Kind einen neuen Ball",
        clause(
            noun("sister", "my"), "give", indirect=noun("child", "the", "small"),
            direct=noun("ball", "a", "new"),
        ),
        {},
    ),
    "verb with the dative, plural": (
        "the children helped their old neighbours",
        "die Kinder halfen ihren alten Nachbarn",
        clause(
            noun("child", "the", plural=True), "help", "past",
            indirect=noun("neighbour", "their", "old", plural=True),
        ),
        {},
    ),
    "weak noun": (
        "the boy waits for the farmer",
        "der Junge wartet auf den Bauern",
        clause(
            noun("boy", "the"), "wait",
            complement=prepositional("for", "auf", noun("farmer", "the"), ACCUSATIVE),
        ),
        {},
    ),
    "into with the accusative": (
        "he puts the key into the new bag",
        "er legt den Schlüssel in die neue Tasche",
        clause(
            "he", "put", direct=noun("key", "the"),
            complement=prepositional("into", "in", noun("bag", "the", "new"), ACCUSATIVE),
        ),
        {},
    ),
    "in with the dative": (
        "the key lies in the new bag",
        "der Schlüssel liegt in der neuen Tasche",
        clause(
            noun("key", "the"), "lie",
            complement=prepositional("in", "in", noun("bag", "the", "new"), DATIVE),
        ),
        {},
    ),
    "kein with an indefinite object": (
        "they do not drink cold milk",
        "sie trinken keine kalte Milch",
        clause("they", "drink", negated=True, direct=noun("milk", "", "cold")),
        {},
    ),
    "nicht after a definite object and before the prefix": (
        "she did not close the door",
        "sie machte die Tür nicht zu",
        clause("she", "close", "past", negated=True, direct=noun("door", "the")),
        {},
    ),
    "nicht before a direction": (
        "Paul will not go into the garden tomorrow",
        "Paul wird morgen nicht in den Garten gehen",
        clause(
            name_phrase("Paul", "m"), "go", "future", negated=True, time=("tomorrow", "morgen"),
            complement=prepositional("into", "in", noun("garden", "the"), ACCUSATIVE),
        ),
        {},
    ),
    "does not have to is not must not": (
        "he does not have to work",
        "er muss nicht arbeiten",
        clause("he", "work", "must", negated=True),
        {},
    ),
    "never before an indefinite object": (
        "I have never seen a horse",
        "ich habe nie ein Pferd gesehen",
        clause("I", "see", "perfect", adverb=("never", "nie"), direct=noun("horse", "a")),
        {},
    ),
    "already after a definite object": (
        "she has already read the book",
        "sie hat das Buch schon gelesen",
        clause("she", "read", "perfect", adverb=("already", "schon"), direct=THE_BOOK),
        {},
    ),
    "number and plural": (
        "the farmer sold twenty-one fresh eggs",
        "der Bauer verkaufte einundzwanzig frische Eier",
        clause(noun("farmer", "the"), "sell", "past", direct=noun("egg", 21, "fresh")),
        {},
    ),
    "genitive": (
        "the teacher's young daughter sings",
        "die junge Tochter des Lehrers singt",
        clause(noun("daughter", "", "young", owner=noun("teacher", "the")), "sing"),
        {},
    ),
    "relative clause about its subject": (
        "the man who lives in the village sleeps",
        "der Mann, der im Dorf wohnt, schläft",
        clause(
            with_relative(
                THE_MAN,
                clause(
                    THE_MAN, "live",
                    complement=prepositional("in", "in", noun("village", "the"), DATIVE),
                ),
                NOMINATIVE,
            ),
            "sleep",
        ),
        {},
    ),
    "relative pronoun in the dative plural": (
        "the women who we help work",
        "die Frauen, denen wir helfen, arbeiten",
        clause(
            with_relative(noun("woman", "the", plural=True), clause("we", "help"), DATIVE), "work"
        ),
        {},
    ),
    "it as a masculine object": (
        "she does not need it",
        "sie braucht ihn nicht",
        clause("she", "need", negated=True, direct=it_phrase(noun("key", "a"))),
        {},
    ),
    "it as a feminine subject": (
        "it was cheap",
        "sie billig war",
        clause(it_phrase(noun("lamp", "the")), None, "past", complement=("cheap", "billig")),
        {"order": "subordinate"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("phenomenon", PAIRS)
def test_clause_reads_as_checked_by_hand(phenomenon):
    source, target, said, options = PAIRS[phenomenon]
    options = dict(options)
    front = options.pop("front", ("", ""))
    inverted = options.get("order") == "question"
    assert f"{front[0]} {english(said, inverted)}".strip() == source
    assert german(said, front=front[1], **options) == target


# Whole sentences, read by a native speaker; the default corpus has them.
SENTENCES = """
Last week Julia opened my old bags. | Letzte Woche machte Julia meine alten Taschen auf.
He did not say that Maria closed Anna's bag. | Er sagte nicht, dass Maria Annas Tasche zumachte.
Her teacher hopes that your aunt will open a window. | Ihr Lehrer hofft, dass deine Tante ein Fenster aufmachen wird.
When the small boy got up early, this man asked the boys. | Als der kleine Junge früh aufstand, fragte dieser Mann die Jungen.
When it snows, these boys call you. | Wenn es schneit, rufen diese Jungen dich an.
Although a neighbour is sick, he is drinking milk. | Obwohl ein Nachbar krank ist, trinkt er Milch.
You buy this ball because it is cheap. | Du kaufst diesen Ball, weil er billig ist.
He should buy Maria's pear because it is fresh. | Er sollte Marias Birne kaufen, weil sie frisch ist.
My friendly daughter called the neighbour because it snowed. | Meine freundliche Tochter rief den Nachbarn an, weil es schneite.
His brother looks for this black table, but he does not find it. | Sein Bruder sucht diesen schwarzen Tisch, aber er findet ihn nicht.
Where did our small children come from? | Woher kamen unsere kleinen Kinder?
Where will my daughter go? | Wohin wird meine Tochter gehen?
Who did my friendly sisters help? | Wem halfen meine freundlichen Schwestern?
Who has the father called? | Wen hat der Vater angerufen?
How many newspapers did a strong teacher read? | Wie viele Zeitungen las ein starker Lehrer?
This farmer asked the doctor who you follow. | Dieser Bauer fragte den Arzt, dem du folgst.
The books that he has written are new. | Die Bücher, die er geschrieben hat, sind neu.
You have counted seven hundred and eighty-six cows. | Du hast siebenhundertsechsundachtzig Kühe gezählt.
My sister said that the neighbour did not go into the kitchen. | Meine Schwester sagte, dass der Nachbar nicht in die Küche ging.
The woman will not give the brother an expensive letter. | Die Frau wird dem Bruder keinen teuren Brief geben.
The strong man has already found the dog. | Der starke Mann hat den Hund schon gefunden.
Do you want to count nine bicycles? | Willst du neun Fahrräder zählen?
"""  # noqa: E501


def test_default_corpus_holds_sentences_checked_by_hand(corpus):
    held = dict(zip(*corpus.train, strict=True))
    for line in SENTENCES.strip().split("\n"):
        source, target = line.split(" | ")
        assert held.get(source) == target


@pytest.mark.parametrize(
    ("determiner", "adjective", "name", "expected"),
    [
        (
            "the", "old", "man",
            "der alte Mann, den alten Mann, "
            "dem alten Mann, des alten Mannes",
        ),
        (
            "a", "old", "man",
            "ein alter Mann, einen alten Mann, "
            "einem alten Mann, eines alten Mannes",
        ),
        (
            "my", "young", "child",
            "mein junges Kind, mein junges Kind, "
            "meinem jungen Kind, meines jungen Kindes",
        ),
        (
            "this", "happy", "woman",
            "diese glückliche Frau, diese glückliche Frau, "
            "dieser glücklichen Frau, dieser glücklichen Frau",
        ),
        (
            "a", "friendly", "neighbour",
            "ein freundlicher Nachbar, einen freundlichen Nachbarn, "
            "einem freundlichen Nachbarn, eines freundlichen Nachbarn",
        ),
    ],
)  # fmt: skip
def test_singular_is_declined_in_four_cases(determiner, adjective, name, expected):
    assert ", ".join(noun(name, determiner, adjective).german) == expected


def test_plural_and_uncounted_nouns_take_strong_endings_without_an_article():
    assert noun("apple", 3, "red").german[DATIVE] == "drei roten Äpfeln"
    assert noun("book", "many", "expensive", plural=True).german[NOMINATIVE] == "viele teure Bücher"
    assert noun("milk", "", "fresh").german[DATIVE] == "frischer Milch"
    assert noun("water", "", "cold").german[NOMINATIVE] == "kaltes Wasser"
    assert noun("friend", "our", plural=True).german[GENITIVE] == "unserer Freunde"


def test_english_article_follows_the_sound():
    assert noun("apple", "a").subject == "an apple"
    assert noun("apple", "a", "red").subject == "a red apple"
    assert noun("house", "a", "old").subject == "an old house"
    assert noun("book", "this", plural=True).subject == "these books"


@pytest.mark.parametrize(
    ("number", "source", "target"),
    [
        (1, "one", "eins"),
        (2, "two", "zwei"),
        (12, "twelve", "zwölf"),
        (16, "sixteen", "sechzehn"),
        (17, "seventeen", "siebzehn"),
        (20, "twenty", "zwanzig"),
        (21, "twenty-one", "einundzwanzig"),
        (30, "thirty", "dreißig"),
        (66, "sixty-six", "sechsundsechzig"),
        (77, "seventy-seven", "siebenundsiebzig"),
        (100, "one hundred", "einhundert"),
        (101, "one hundred and one", "einhunderteins"),
        (117, "one hundred and seventeen", "einhundertsiebzehn"),
        (231, "two hundred and thirty-one", "zweihunderteinunddreißig"),
        (316, "three hundred and sixteen", "dreihundertsechzehn"),
        (540, "five hundred and forty", "fünfhundertvierzig"),
        (999, "nine hundred and ninety-nine", "neunhundertneunundneunzig"),
    ],
)
def test_number_is_written_out(number, source, target):
    assert (english_number(number), german_number(number)) == (source, target)


def test_numbers_are_all_different_and_bounded():
    assert len({english_number(n) for n in range(1, 1000)}) == 999
    assert len({german_number(n) for n in range(1, 1000)}) == 999
    for number in (0, 1000):
        with pytest.raises(ValueError, match=f"1 to 999.*Received: {number}"):
            german_number(number)


def test_corpus_has_the_sizes_asked_for(corpus):
    sizes = [len(side) for split in (corpus.train, corpus.valid, corpus.test) for side in split]
    assert sizes == [30_000, 30_000, 500, 500, 1_000, 1_000]
    empty = make_demo_corpus(0, 0, 3)
    assert empty.train == ([], []) and len(empty.test[0]) == 3


@pytest.mark.parametrize("side", [0, 1])
def test_no_sentence_comes_twice_within_or_across_splits(corpus, side):
    everything = corpus.train[side] + corpus.valid[side] + corpus.test[side]
    assert len(set(everything)) == len(everything) == 31_500


def test_each_english_sentence_has_one_german_one():
    # Drawn without the corpus's own filter, which would hide a second translation.
    sentences = demo._Sentences(seed=5)
    german_of = {}
    repeated = 0
    for _ in range(40_000):
        source, target = sentences.sentence()
        repeated += source in german_of
        assert german_of.setdefault(source, target) == target
    assert repeated > 500


def test_seed_decides_the_corpus():
    first = make_demo_corpus(200, 50, 50)
    assert sha256(first) == GOLDEN
    assert sha256(make_demo_corpus(200, 50, 50, seed=2)) != GOLDEN


@pytest.mark.slow
def test_corpus_does_not_depend_on_hash_seeds_or_the_process():
    code = (
        "import hashlib; from keras_transformer.data.demo import make_demo_corpus as make; "
        "c = make(200, 50, 50); text = ''.join(f'{e}\\t{g}\\n' for s in (c.train, c.valid, c.test) "
        "for e, g in zip(*s)); print(hashlib.sha256(text.encode()).hexdigest())"
    )
    root = pathlib.Path(demo.__file__).parents[2]
    for hash_seed in ("0", "4711"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(root)}
        command = [sys.executable, "-c", code]
        printed = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        )
        assert printed.stdout.split()[-1] == GOLDEN


def test_held_out_sentences_stay_when_more_are_trained_on():
    small, large = make_demo_corpus(10, 20, 30), make_demo_corpus(300, 20, 30)
    assert small.test == large.test and small.valid == large.valid
    assert small.train[0] == large.train[0][:10]


def test_corpus_is_made_in_seconds():
    start = time.process_time()
    make_demo_corpus()
    assert time.process_time() - start < 10  # about 2 on one core


def test_sentences_are_of_moderate_length(corpus):
    lengths = [len(sentence.split()) for sentence in corpus.train[0]]
    assert min(lengths) >= 4 and max(lengths) <= 22
    assert 8 <= sum(lengths) / len(lengths) <= 10


def test_sentences_are_cleanly_punctuated(corpus):
    shape = re.compile(r"[A-ZÄÖÜ][A-Za-zÄÖÜäöüß' ,-]*[a-zß][.?]")
    for source, target in zip(*corpus.train, strict=True):
        for sentence in (source, target):
            assert shape.fullmatch(sentence), sentence
            assert "  " not in sentence and " ," not in sentence and ",," not in sentence, sentence
        assert source[-1] == target[-1]


def test_every_word_of_the_lexicon_is_frequent_in_training(corpus):
    words = Counter(re.findall(r"[\w'-]+", " ".join(corpus.train[0]).lower()))
    german_words = Counter(re.findall(r"\w+", " ".join(corpus.train[1])))
    for entry in NOUNS:
        assert words[entry.english] + words[entry.english_plural] >= 50, entry.english
        forms = {form for number in entry.german for form in number}
        assert sum(german_words[form] for form in forms) >= 50, entry.english
    for entry in VERBS:
        assert sum(words[form] for form in sorted(set(entry.english))) >= 50, entry.english
    for word in ADJECTIVES:
        assert words[word] >= 50, word


def test_no_english_form_is_rare_but_for_numbers(corpus):
    words = Counter(re.findall(r"[\w'-]+", " ".join(corpus.train[0]).lower()))
    rare = {word: count for word, count in words.items() if count < 15 and "-" not in word}
    assert all(word.endswith("ty") for word in rare), rare


@pytest.mark.parametrize("name", ["num_train", "num_valid", "num_test"])
@pytest.mark.parametrize("size", [-1, 2.5, True, "10"])
def test_impossible_size_is_named(name, size):
    expected = f"{name} must be an integer, 0 or more. Received: {size!r}"
    with pytest.raises(ValueError, match=expected):
        make_demo_corpus(**{name: size})


def test_seed_must_be_an_integer():
    with pytest.raises(ValueError, match="seed must be an integer. Received: 'x'"):
        make_demo_corpus(1, 1, 1, seed="x")


def test_more_sentences_than_the_grammar_gives_are_refused_at_once():
    with pytest.raises(ValueError, match="at most 500000 distinct.*ask for fewer"):
        make_demo_corpus(num_train=10**9)


def test_exhausted_grammar_ends_in_an_error(monkeypatch):
    class FewWords(demo._Sentences):
        def sentence(self):
            word = self.pick(("a", "b", "c"))
            return word, word

    monkeypatch.setattr(demo, "_Sentences", FewWords)
    with pytest.raises(ValueError, match="ran out after 3 distinct sentences"):
        make_demo_corpus(4, 0, 0)
