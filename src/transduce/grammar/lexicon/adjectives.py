"""The adjectives and the nouns that each of them suits."""

from transduce.data.corpus import Pair
from transduce.grammar.features import Adjective
from transduce.grammar.inflection import adjective_stem
from transduce.grammar.lexicon.nouns import ALL_NOUNS, select
from transduce.grammar.wording import rows, words

ADJECTIVES = """
    young/younger jung/jünger | person
    old/older alt/älter
       | person pet press text thing luggage clothing device vehicle furniture opening work
    old/older alt/älter
       | house apartment outing hotel school university village castle transport tree
    tall/taller groß/größer | person child relative plant
    big/bigger groß/größer
       | pet livestock beast fruit thing luggage device vehicle furniture opening
    big/bigger groß/größer | outdoors indoors shop outing stop dish
    small/smaller klein/kleiner
       | child pet livestock bird snake monkey fox fruit thing luggage device vehicle furniture
    small/smaller klein/kleiner | outdoors indoors shop outing stop opening dish
    new/newer neu/neuer | press text thing luggage clothing device vehicle furniture work
    new/newer neu/neuer | house apartment hotel school office library hospital swimming_pool
    rich/richer reich/reicher | person
    poor/poorer arm/ärmer | person
    strong/stronger stark/stärker | person relative
    smart/smarter klug/klüger | person child relative pet
    friendly/friendlier freundlich/freundlicher | person child relative elder pet
    famous/more_famous berühmt/berühmter | person relative outing book novel work
    polite/more_polite höflich/höflicher | person child relative
    lazy/lazier faul/fauler | person child relative pet
    sick krank | person child relative elder pet livestock
    tired müde | person child relative elder pet livestock
    happy/happier glücklich/glücklicher | person child relative
    sad/sadder traurig/trauriger | person child relative
    hungry hungrig | child pet livestock beast
    dangerous/more_dangerous gefährlich/gefährlicher | bear lion tiger wolf snake elephant
    wild wild | beast
    black schwarz | pet clothing colored vehicle furniture luggage
    white weiß | pet clothing colored vehicle furniture
    brown braun | pet clothing luggage
    red rot | clothing colored vehicle furniture luggage rose
    blue blau | clothing colored vehicle luggage
    green grün | clothing colored vehicle
    yellow gelb | clothing colored
    fresh frisch | fruit staple milk juice roll water
    sweet/sweeter süß/süßer | apple pear banana orange cake cookie
    delicious lecker | fruit dish
    warm/warmer warm/wärmer | clothing soup milk bread
    cold/colder kalt/kälter | drink soup
    hot/hotter heiß/heißer | coffee tea soup
    expensive/more_expensive teuer/teurer | thing luggage clothing device vehicle furniture
    expensive/more_expensive teuer/teurer | restaurant hotel house apartment wine cheese
    cheap/cheaper billig/billiger
       | thing luggage clothing device vehicle furniture restaurant hotel wine
    beautiful/more_beautiful schön/schöner
       | pretty clothing furniture plant poem story song bird horse
    beautiful/more_beautiful schön/schöner | outdoors church castle house apartment hotel museum
    heavy/heavier schwer/schwerer | luggage furniture device
    dirty schmutzig
       | clothing vehicle luggage opening kitchen apartment room plate cup spoon fork knife
    clean sauber | plate cup towel kitchen room
    empty leer | luggage bottle basket
    broken kaputt | device vehicle clock camera umbrella window door chair
    fast/faster schnell/schneller | vehicle train horse
    slow/slower langsam/langsamer | vehicle transport
    comfortable/more_comfortable bequem/bequemer | chair bed sofa sweater
    modern/more_modern modern/moderner | apartment kitchen office hospital device furniture
    quiet/quieter ruhig/ruhiger | outdoors library hotel room apartment restaurant
    interesting/more_interesting interessant/interessanter | press text work museum issue
    boring/more_boring langweilig/langweiliger | press text work
    exciting/more_exciting spannend/spannender | novel story movie
    long/longer lang/länger | novel text work sentence word scarf skirt
    short/shorter kurz/kürzer | text sentence word
    difficult/more_difficult schwierig/schwieriger | issue
    important/more_important wichtig/wichtiger | issue letter report message
    simple/simpler einfach/einfacher | question answer rule plan sentence task
"""
COLORS = words("black white brown red blue green yellow")
# Faults: they go with "it was too old" and "although it was old".
BLAME = ("old", "expensive", "heavy", "dirty", "broken", "boring", "slow", "long")


def parse_adjective(english: str, german: str) -> Adjective:
    """Parse the words of a row of ADJECTIVES."""
    positive, _, comparative = english.replace("_", " ").partition("/")
    german, _, german_comparative = german.partition("/")
    return Adjective(
        english=positive,
        german=german,
        stem=adjective_stem(german),
        comparative=Pair(comparative, german_comparative) if comparative else None,
    )


def adjectives_by_noun() -> dict[str, tuple[Adjective, ...]]:
    """Return the adjectives that suit each noun, by its English."""
    known: dict[str, tuple[Adjective, ...]] = {noun.english: () for noun in ALL_NOUNS}
    for row in rows(ADJECTIVES):
        names, selectors = row.split("|")
        adjective = parse_adjective(*names.split())
        for noun in select(selectors):
            known[noun.english] += (adjective,)
    return known


ADJECTIVES_OF = adjectives_by_noun()
DESCRIBABLE = tuple(noun for noun in ALL_NOUNS if ADJECTIVES_OF[noun.english])
