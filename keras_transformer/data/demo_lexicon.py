"""Words of the demo language pair: nouns, verbs, adjectives, names.

`demo_grammar.py` inflects them and orders them to clauses, `demo.py` chooses them. German has three
genders (`m`, `f`, `n`; in the table `w` marks weak masculine nouns such as "Junge"), and four
cases, always in the order nominative, accusative, dative, genitive.
"""

from __future__ import annotations

import dataclasses

# English singular and plural | German singular, gender, plural | classes ("-": no plural in use).
_NOUNS = """
man men | Mann m Männer | person stranger
woman women | Frau f Frauen | person stranger
child children | Kind n Kinder | young person
boy boys | Junge w Jungen | young person stranger
girl girls | Mädchen n Mädchen | young person stranger
teacher teachers | Lehrer m Lehrer | person
doctor doctors | Arzt m Ärzte | person
neighbour neighbours | Nachbar w Nachbarn | person
farmer farmers | Bauer w Bauern | person stranger
friend friends | Freund m Freunde | person kin several
mother - | Mutter f - | person kin
father - | Vater m - | person kin
sister sisters | Schwester f Schwestern | person kin several
brother brothers | Bruder m Brüder | person kin several
aunt aunts | Tante f Tanten | person kin several
daughter daughters | Tochter f Töchter | person kin several
dog dogs | Hund m Hunde | animal pet
cat cats | Katze f Katzen | animal pet
horse horses | Pferd n Pferde | animal
bird birds | Vogel m Vögel | animal
cow cows | Kuh f Kühe | animal
apple apples | Apfel m Äpfel | food
pear pears | Birne f Birnen | food
egg eggs | Ei n Eier | food
cake cakes | Kuchen m Kuchen | food
potato potatoes | Kartoffel f Kartoffeln | food
bread - | Brot n - | mass
cheese - | Käse m - | mass
soup - | Suppe f - | mass
water - | Wasser n - | drink
milk - | Milch f - | drink
tea - | Tee m - | drink
book books | Buch n Bücher | paper thing read write flat
letter letters | Brief m Briefe | paper thing read write flat
newspaper newspapers | Zeitung f Zeitungen | paper thing read flat
picture pictures | Bild n Bilder | paper thing flat
key keys | Schlüssel m Schlüssel | thing flat
hat hats | Hut m Hüte | thing flat
shirt shirts | Hemd n Hemden | thing wash flat
flower flowers | Blume f Blumen | thing flat
ball balls | Ball m Bälle | thing toy
lamp lamps | Lampe f Lampen | bulky thing fix
chair chairs | Stuhl m Stühle | bulky thing fix
table tables | Tisch m Tische | bulky thing fix
bag bags | Tasche f Taschen | bulky thing open wash
box boxes | Kiste f Kisten | bulky thing open
bed beds | Bett n Betten | bulky thing fix
car cars | Auto n Autos | bulky thing wash fix
bicycle bicycles | Fahrrad n Fahrräder | bulky thing wash fix
door doors | Tür f Türen | open fix part
window windows | Fenster n Fenster | open fix part
garden - | Garten m - | place in into from
kitchen - | Küche f - | place in into from
room - | Zimmer n - | place in into from
house - | Haus n - | place in into from home
school - | Schule f - | place in to from
church - | Kirche f - | place in to from
park - | Park m - | place in to from
forest - | Wald m - | place in into from
city - | Stadt f - | place in into from home arrive
village - | Dorf n - | place in into from home arrive
market - | Markt m - | place at to arrive
station - | Bahnhof m - | place at to arrive
"""

# English base, third person, past, participle, -ing form, particle (or "-")
# | separable prefix (or "-"), infinitive, du, er, past, participle, perfect with haben or sein
# | frame: what it takes | classes of its object (or "-")
# | s: no progressive, x: no adverbs, p: may have a place, a: animals do it too (or "-")
_VERBS = """
buy buys bought bought buying - | - kaufen kaufst kauft kaufte gekauft h | acc | food mass thing | p
sell sells sold sold selling - | - verkaufen verkaufst verkauft verkaufte verkauft h | acc | food mass thing | p
see sees saw seen seeing - | - sehen siehst sieht sah gesehen h | acc | person animal thing | spa
find finds found found finding - | - finden findest findet fand gefunden h | acc | animal food thing | sp
look looks looked looked looking for | - suchen suchst sucht suchte gesucht h | acc | person pet thing | p
need needs needed needed needing - | - brauchen brauchst braucht brauchte gebraucht h | acc | food mass thing | sx
have has had had having - | - haben hast hat hatte gehabt h | acc | several animal thing | sx
read reads read read reading - | - lesen liest liest las gelesen h | acc | read | p
write writes wrote written writing - | - schreiben schreibst schreibt schrieb geschrieben h | acc | write | p
eat eats ate eaten eating - | - essen isst isst aß gegessen h | acc | food mass | pa
drink drinks drank drunk drinking - | - trinken trinkst trinkt trank getrunken h | acc | drink | pa
love loves loved loved loving - | - lieben liebst liebt liebte geliebt h | acc | person animal | sx
know knows knew known knowing - | - kennen kennst kennt kannte gekannt h | acc | person | sx
visit visits visited visited visiting - | - besuchen besuchst besucht besuchte besucht h | acc | person | -
ask asks asked asked asking - | - fragen fragst fragt fragte gefragt h | acc | person | -
wash washes washed washed washing - | - waschen wäschst wäscht wusch gewaschen h | acc | pet wash | p
carry carries carried carried carrying - | - tragen trägst trägt trug getragen h | acc | thing | -
repair repairs repaired repaired repairing - | - reparieren reparierst repariert reparierte repariert h | acc | fix | p
count counts counted counted counting - | - zählen zählst zählt zählte gezählt h | count | animal food thing | p
open opens opened opened opening - | auf machen machst macht machte gemacht h | acc | open | -
close closes closed closed closing - | zu machen machst macht machte gemacht h | acc | open | -
pick picks picked picked picking up | ab holen holst holt holte geholt h | acc | person | -
call calls called called calling - | an rufen rufst ruft rief gerufen h | acc | person | -
invite invites invited invited inviting - | ein laden lädst lädt lud geladen h | acc | person | -
help helps helped helped helping - | - helfen hilfst hilft half geholfen h | dat | person | p
thank thanks thanked thanked thanking - | - danken dankst dankt dankte gedankt h | dat | person | -
follow follows followed followed following - | - folgen folgst folgt folgte gefolgt s | dat | person animal | a
give gives gave given giving - | - geben gibst gibt gab gegeben h | dit | food thing | -
show shows showed shown showing - | - zeigen zeigst zeigt zeigte gezeigt h | dit | animal thing | -
send sends sent sent sending - | - schicken schickst schickt schickte geschickt h | dit | flat | -
bring brings brought brought bringing - | - bringen bringst bringt brachte gebracht h | dit | food mass flat | -
sleep sleeps slept slept sleeping - | - schlafen schläfst schläft schlief geschlafen h | intr | - | pa
work works worked worked working - | - arbeiten arbeitest arbeitet arbeitete gearbeitet h | intr | - | p
sing sings sang sung singing - | - singen singst singt sang gesungen h | intr | - | p
get gets got got getting - | auf stehen stehst steht stand gestanden s | early | - | s
arrive arrives arrived arrived arriving - | an kommen kommst kommt kam gekommen s | arrive | arrive | -
wait waits waited waited waiting - | - warten wartest wartet wartete gewartet h | for | person | p
talk talks talked talked talking - | - sprechen sprichst spricht sprach gesprochen h | to | person | p
play plays played played playing - | - spielen spielst spielt spielte gespielt h | with | pet toy | p
go goes went gone going - | - gehen gehst geht ging gegangen s | go | into to | -
run runs ran run running - | - laufen läufst läuft lief gelaufen s | go | into to | a
come comes came come coming - | - kommen kommst kommt kam gekommen s | from | from | -
live lives lived lived living - | - wohnen wohnst wohnt wohnte gewohnt h | live | home | sx
put puts put put putting - | - legen legst legt legte gelegt h | put | flat | -
lie lies lay lain lying - | - liegen liegst liegt lag gelegen h | lie | flat | s
say says said said saying - | - sagen sagst sagt sagte gesagt h | that | - | s
know knows knew known knowing - | - wissen weißt weiß wusste gewusst h | that | - | s
believe believes believed believed believing - | - glauben glaubst glaubt glaubte geglaubt h | that | - | s
hope hopes hoped hoped hoping - | - hoffen hoffst hofft hoffte gehofft h | that | - | s
rain rains rained rained raining - | - regnen regnest regnet regnete geregnet h | weather | - | -
snow snows snowed snowed snowing - | - schneien schneist schneit schneite geschneit h | weather | - | -
"""  # noqa: E501

ADJECTIVES = {
    "old": "alt", "young": "jung", "big": "groß", "small": "klein", "new": "neu",
    "beautiful": "schön", "red": "rot", "blue": "blau", "green": "grün", "black": "schwarz",
    "white": "weiß", "expensive": "teuer", "cheap": "billig", "good": "gut", "fresh": "frisch",
    "warm": "warm", "cold": "kalt", "heavy": "schwer", "friendly": "freundlich",
    "happy": "glücklich", "tired": "müde", "sick": "krank", "hungry": "hungrig", "quiet": "ruhig",
    "strong": "stark", "interesting": "interessant",
}  # fmt: skip

# What can be said of a noun, by its first class; before the noun, and after "is".
_FITTING = {
    "young": ("small happy friendly", "tired sick hungry happy friendly"),
    "person": ("old young friendly happy strong", "tired sick hungry happy friendly strong"),
    "animal": ("old young big small black white beautiful", "tired hungry sick big strong"),
    "food": ("big small fresh good cheap red green", "fresh expensive cheap good"),
    "mass": ("fresh good cheap expensive", "fresh good expensive"),
    "drink": ("warm cold fresh", "warm cold fresh good"),
    "paper": ("new old beautiful good interesting expensive", "new old interesting expensive good"),
    "bulky": ("new old red blue green heavy expensive black", "new old expensive cheap heavy"),
    "thing": ("new old red blue green white beautiful", "new old expensive cheap beautiful"),
    "open": ("new old big red white heavy", "new old big heavy"),
    "place": ("big small old beautiful quiet new", "big quiet old beautiful"),
}

NAMES = (
    ("Anna", "f"), ("Maria", "f"), ("Julia", "f"), ("Paul", "m"), ("Peter", "m"), ("David", "m"),
)  # fmt: skip

POSSESSIVES = ("my", "your", "his", "her", "our", "their")


@dataclasses.dataclass(frozen=True, eq=False)
class Noun:
    """A noun pair; `german` holds the four cases of the singular, then of the plural."""

    english: str
    english_plural: str
    gender: str
    german: tuple[tuple[str, ...], tuple[str, ...]]
    classes: tuple[str, ...]
    adjectives: tuple[str, ...]
    predicates: tuple[str, ...]

    @property
    def mass(self) -> bool:
        """Whether it is always singular."""
        return self.english_plural == "-"


@dataclasses.dataclass(frozen=True, eq=False)
class Verb:
    """A verb pair; `english` is base, third person, past, participle, -ing form."""

    english: tuple[str, str, str, str, str]
    particle: str
    prefix: str
    infinitive: str
    participle: str
    auxiliary: str
    present: dict[str, str]
    past: dict[str, str]
    frame: str
    objects: tuple[Noun, ...]
    traits: str


def _read_noun(line: str) -> Noun:
    english, german, classes = (part.split() for part in line.split("|"))
    singular, gender, plural = german
    syllables = sum(
        letter in "aeiouäöü" and before not in "aeiouäöü"
        for before, letter in zip(" " + singular.lower(), singular.lower(), strict=False)
    )
    if gender == "f":
        cases = (singular,) * 4
    elif gender == "w":
        cases = (singular, plural, plural, plural)
    else:
        long = syllables == 1 and singular[-1] not in "aei"  # des Mannes, but des Lehrers, des Eis
        cases = (singular, singular, singular, singular + ("es" if long else "s"))
    dative = plural if plural[-1] in "ns" else plural + "n"
    fitting = next(_FITTING[name] for name in classes if name in _FITTING)
    return Noun(
        english[0], english[1], "m" if gender == "w" else gender,
        (cases, (plural, plural, dative, plural)), tuple(classes),
        tuple(fitting[0].split()), tuple(fitting[1].split()),
    )  # fmt: skip


NOUNS = tuple(_read_noun(line) for line in _NOUNS.strip().split("\n"))


def nouns_of(*classes: str) -> tuple[Noun, ...]:
    """The nouns that are in any of the classes, in the order of the table."""
    return tuple(noun for noun in NOUNS if any(name in noun.classes for name in classes))


def _read_verb(line: str) -> Verb:
    english, german, frame, objects, traits = (part.split() for part in line.split("|"))
    prefix, infinitive, du, er, past, participle, auxiliary = german
    prefix = "" if prefix == "-" else prefix
    if infinitive == "wissen":
        ich = "weiß"
    else:
        ich = infinitive[:-1] if infinitive.endswith("en") else infinitive[:-1] + "e"
    plural_past = past + ("n" if past.endswith("e") else "en")
    return Verb(
        tuple(english[:5]), "" if english[5] == "-" else english[5], prefix,
        prefix + infinitive, prefix + participle, "sein" if auxiliary == "s" else "haben",
        {"1s": ich, "2s": du, "3s": er, "pl": infinitive},
        {"1s": past, "3s": past, "pl": plural_past},
        frame[0], nouns_of(*objects), traits[0],
    )  # fmt: skip


VERBS = tuple(_read_verb(line) for line in _VERBS.strip().split("\n"))


def _forms(forms: str) -> dict[str, str]:
    return dict(zip(("1s", "2s", "3s", "pl"), forms.split(), strict=True))


AUXILIARIES = {
    "haben": _forms("habe hast hat haben"),
    "sein": _forms("bin bist ist sind"),
    "war": _forms("war warst war waren"),
    "future": _forms("werde wirst wird werden"),
    "can": _forms("kann kannst kann können"),
    "must": _forms("muss musst muss müssen"),
    "want": _forms("will willst will wollen"),
    "should": _forms("sollte solltest sollte sollten"),
    "could": _forms("konnte konntest konnte konnten"),
    "had_to": _forms("musste musstest musste mussten"),
    "wanted": _forms("wollte wolltest wollte wollten"),
}
