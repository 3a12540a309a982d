"""The verbs, with what they govern and where their action can take place."""

from transduce.data.corpus import Pair
from transduce.grammar.features import Complement, Verb
from transduce.grammar.inflection import english_plural, german_present, split_verb, suffixed
from transduce.grammar.lexicon.nouns import TOWNS, select
from transduce.grammar.wording import rows

# English (+ particle, irregular past) | German (prefix +, er form, participle, ist) | aspect
# | subjects | what it governs: English preposition > German preposition, case: nouns | places.
# The aspect decides which tenses are used (draw/clauses.py); animals fressen, people essen.
VERBS = """
    read read | lesen liest gelesen | activity | people | acc: text press | at: outdoors indoors
    write wrote | schreiben schreibt geschrieben | activity | adults | acc: text novel
       | at: office library
    write wrote | schreiben schreibt geschrieben | action | adults | dat: folk; acc: text
    translate | übersetzen übersetzt übersetzt | action | adults | acc: text book novel sentence
    buy bought | kaufen kauft gekauft | activity | adults | acc: fruit staple roll flower
       | at: market supermarket
    buy bought | kaufen kauft gekauft | action | adults
       | acc: thing clothing furniture device vehicle press
    sell sold | verkaufen verkauft verkauft | action | adults
       | acc: clothing furniture device vehicle house
    rent | mieten mietet gemietet | action | adults | acc one: car apartment house boat bicycle
    eat ate | essen isst gegessen | activity | people | acc: fruit dish staple
       | at: kitchen restaurant garden park
    eat ate | fressen frisst gefressen | activity | rabbit livestock
       | acc: carrot apple bread potato | at: garden farm
    eat ate | fressen frisst gefressen | activity | dog cat | acc: meat fish sausage
       | at: garden kitchen
    eat ate | fressen frisst gefressen | action | bear lion tiger wolf fox | acc: meat fish
    eat ate | fressen frisst gefressen | action | monkey elephant | acc: banana apple pear orange
    drink drank | trinken trinkt getrunken | activity | people | acc: drink
       | at: kitchen garden restaurant hotel
    drink drank | trinken trinkt getrunken | activity | animals | acc: water
    cook | kochen kocht gekocht | activity | adults | acc: soup potato rice egg meat | at: kitchen
    bake | backen backt gebacken | activity | adults | acc: cake bread pizza cookie roll
       | at: kitchen bakery
    cut cut | schneiden schneidet geschnitten | action | adults
       | acc: bread cheese cake apple tomato carrot
    order | bestellen bestellt bestellt | action | adults | acc: dish drink | at: restaurant hotel
    wash | waschen wäscht gewaschen | activity | people | acc: car clothing apple carrot potato pear
    clean | putzen putzt geputzt | activity | people
       | acc: kitchen window bicycle apartment mirror door
    repair | reparieren repariert repariert | action | adults | acc: vehicle device clock chair door
    draw drew | zeichnen zeichnet gezeichnet | activity | people
       | acc: plant beast livestock castle house
    photograph | fotografieren fotografiert fotografiert | action | people
       | acc: animals beast castle church
    see saw | sehen sieht gesehen | state | people | acc: folk animals beast vehicle
    hear heard | hören hört gehört | state | people | acc: song pet child bird train
    love | lieben liebt geliebt | state | people | acc: kin animals
    like | mögen mag gemocht | state | people | acc: kin pet song book movie garden person
    know knew | kennen kennt gekannt | state | people | acc: folk song movie outing village rule
    understand understood | verstehen versteht verstanden | state | people
       | acc: issue text language
    need | brauchen braucht gebraucht | state | people
       | acc: thing clothing luggage device vehicle press
    have had | haben hat gehabt | state | people
       | acc: animals vehicle device thing luggage furniture
    look | suchen sucht gesucht | activity | people | for> acc: thing luggage pet kin child clothing
    find found | finden findet gefunden | event | people | acc: thing luggage pet answer mistake
    lose lost | verlieren verliert verloren | accident | people
       | acc: key phone umbrella ring ticket wallet
    forget forgot | vergessen vergisst vergessen | accident | people
       | acc: thing luggage clothing word rule
    break broke | zerbrechen zerbricht zerbrochen | accident | people | acc: cup plate bottle mirror
    carry | tragen trägt getragen | activity | people | acc: luggage picture chair blanket
    wear wore | tragen trägt getragen | activity | people | acc one: clothing ring
    receive | bekommen bekommt bekommen | event | people | acc: letter message gift answer
    visit | besuchen besucht besucht | activity | people | acc: folk museum zoo castle
    meet met | treffen trifft getroffen | activity | people | acc: folk | at: outing stop park
    build built | bauen baut gebaut | action | adults
       | acc one: house boat ship castle table cupboard
    feed fed | füttern füttert gefüttert | activity | people | acc: animals | at: farm garden zoo
    plant | pflanzen pflanzt gepflanzt | action | people | acc: plant flower | at: garden park
    paint | malen malt gemalt | activity | people | acc: picture | at: outdoors
    sing sang | singen singt gesungen | activity | people | acc: song
       | at: church school garden theater
    learn | lernen lernt gelernt | activity | people | acc: language | at: school university
    speak spoke | sprechen spricht gesprochen | state | people | acc: language
    play | spielen spielt gespielt | activity | people | acc: game
       | at: park garden playground school
    pay paid | bezahlen bezahlt bezahlt | action | adults | acc: bill
    pay paid | bezahlen bezahlt bezahlt | action | adults | for> acc: ticket dish
    answer | beantworten beantwortet beantwortet | action | people | acc: question letter message
    open | auf+machen macht aufgemacht | action | people | acc: opening luggage bottle letter gift
    close | zu+machen macht zugemacht | action | people | acc: opening luggage
    invite | ein+laden lädt eingeladen | action | people | acc: folk
    call | an+rufen ruft angerufen | activity | people | acc: folk
    pick+up | ab+holen holt abgeholt | action | adults | acc: kin child guest | at: stop school
    take+along took | mit+nehmen nimmt mitgenommen | event | people
       | acc: umbrella luggage camera pet
    bring+along brought | mit+bringen bringt mitgebracht | event | people
       | acc: dish gift kin flower
    put+on put | an+ziehen zieht angezogen | action | people | acc one: garment
    take+off took | aus+ziehen zieht ausgezogen | action | people | acc one: garment
    turn+on | ein+schalten schaltet eingeschaltet | action | people | acc: device
    turn+off | aus+schalten schaltet ausgeschaltet | action | people | acc: device
    throw+away threw | weg+werfen wirft weggeworfen | action | people
       | acc: newspaper letter ticket cap shirt
    tidy+up | auf+räumen räumt aufgeräumt | activity | people
       | acc: room kitchen office desk apartment
    fill+out | aus+füllen füllt ausgefüllt | action | adults | acc: form
    give+back gave | zurück+geben gibt zurückgegeben | event | people
       | acc: press thing vehicle luggage
    help | helfen hilft geholfen | activity | people | dat: folk | at: kitchen garden farm office
    thank | danken dankt gedankt | action | people | dat: folk
    trust | vertrauen vertraut vertraut | state | people | dat: folk
    follow | folgen folgt gefolgt ist | action | people animals | dat: person child
    belong | gehören gehört gehört | state | things | to> dat: folk
    listen | zu+hören hört zugehört | activity | people | to> dat: folk
    wait | warten wartet gewartet | activity | people | for>auf acc: folk transport | at: stop
    think thought | denken denkt gedacht | activity | people | of>an acc: folk
    talk | sprechen spricht gesprochen | activity | adults
       | about>über acc: issue work folk press | at: indoors
    talk | sprechen spricht gesprochen | activity | people | to>mit dat: folk
       | at: park office market station
    dream dreamed | träumen träumt geträumt | activity | people
       | of>von dat: person beast castle vehicle
    laugh | lachen lacht gelacht | action | people | about>über acc: story mistake movie picture
    play | spielen spielt gespielt | activity | child pet | with>mit dat: pet ball
       | at: outdoors kitchen
    dance | tanzen tanzt getanzt | activity | adults | with>mit dat: folk
       | at: castle hotel restaurant beach
    give gave | geben gibt gegeben | action | people | dat: folk; acc: press thing letter fruit
    show showed | zeigen zeigt gezeigt | action | people
       | dat: folk; acc: press text thing house garden pet
    send sent | schicken schickt geschickt | action | adults
       | dat: folk; acc: text press gift flower bill
    bring brought | bringen bringt gebracht | action | people
       | dat: folk; acc: dish fruit press letter drink
    lend lent | leihen leiht geliehen | event | adults
       | dat: folk; acc: vehicle press umbrella luggage camera
    tell told | erzählen erzählt erzählt | activity | people | dat: folk; acc: story
    read read | vor+lesen liest vorgelesen | activity | adults
       | dat: child kin; acc: story poem letter
    explain | erklären erklärt erklärt | action | adults | to> dat: folk; acc: issue poem
    recommend | empfehlen empfiehlt empfohlen | event | adults
       | to> dat: folk; acc: press movie restaurant hotel
    sleep slept | schlafen schläft geschlafen | activity | people | - | at: indoors garden
    sleep slept | schlafen schläft geschlafen | activity | pet | - | at: kitchen room house garden
    sleep slept | schlafen schläft geschlafen | activity | livestock | -
    sleep slept | schlafen schläft geschlafen | activity | beast | - | at: zoo forest
    work | arbeiten arbeitet gearbeitet | activity | adults | -
       | at: indoors shop outing farm garden stop
    live | wohnen wohnt gewohnt | state | people | - | in: village house hotel apartment castle city
    dance | tanzen tanzt getanzt | activity | people | -
       | at: park garden beach hotel restaurant castle theater
    sing sang | singen singt gesungen | activity | people bird | - | at: outdoors church theater
    cry | weinen weint geweint | mood | people | - | at: indoors
    laugh | lachen lacht gelacht | mood | people | -
    smile | lächeln lächelt gelächelt | mood | people | -
    swim swam | schwimmen schwimmt geschwommen ist | activity | people | - | at: swimming_pool
    hike | wandern wandert gewandert ist | activity | people | - | in: forest
    study | studieren studiert studiert | state | student relative | - | in: university city
    wait | warten wartet gewartet | activity | people | - | in: stop hotel office kitchen
    bark | bellen bellt gebellt | mood | dog | - | at: garden farm
    get+up got | auf+stehen steht aufgestanden ist | schedule | people | -
    fall+asleep fell | ein+schlafen schläft eingeschlafen ist | accident | people pet | -
    come+back came | zurück+kommen kommt zurückgekommen ist | event | people | -
    watch+TV | fern+sehen sieht ferngesehen | activity | people | -
    shop | ein+kaufen kauft eingekauft | activity | adults | - | at: shop city
    arrive | an+kommen kommt angekommen ist | schedule | people | - | in: stop city hotel
    arrive | an+kommen kommt angekommen ist | schedule | bus train | - | in: station city
    depart | ab+fahren fährt abgefahren ist | schedule | transport | -
    go went | gehen geht gegangen ist | activity | people | -
       | to: shop outing garden park office school
    run ran | laufen läuft gelaufen ist | activity | people animals | -
       | to: garden forest house lake kitchen
    travel | reisen reist gereist ist | action | adults | - | to: city
    fly flew | fliegen fliegt geflogen ist | action | adults | - | to: city
    go went | fahren fährt gefahren ist | activity | people | -
       | by: city shop outing stop school lake beach
    put put | legen legt gelegt | action | people | acc: flat laid | onto: furniture
    lie lay | liegen liegt gelegen | position | flat laid | - | on: furniture
    sit sat | sitzen sitzt gesessen | activity | dog cat | - | on: furniture
"""


def parse_complement(text: str) -> Complement:
    """Parse what a verb governs, such as `for>auf acc: person train`."""
    governed, _, selectors = text.partition(":")
    english, _, german = governed.strip().rpartition(">")
    german, single, _ = german.partition(" one")
    *preposition, case = german.split()
    assert case in ("acc", "dat"), text
    return Complement(
        preposition=Pair(english, " ".join(preposition)),
        case="acc" if case == "acc" else "dat",
        single=bool(single),
        nouns=select(selectors),
    )


def parse_verb(row: str) -> Verb:
    """Parse a row of VERBS."""
    english, german, aspect, subjects, governed, where, *_ = (
        part.strip() for part in (row + "|" * 5).split("|")
    )
    base, *past = english.split()
    base, particle = base.split("+") if "+" in base else (base, "")
    infinitive, third, participle, *sein = german.split()
    infinitive, prefix = split_verb(infinitive)
    direction, _, places = where.partition(":")
    names = places.split()
    return Verb(
        base=base,
        third="has" if base == "have" else english_plural(base),
        past=past[0] if past else suffixed(base, "ed"),
        ing=suffixed(base, "ing"),
        particle=particle,
        infinitive=infinitive,
        prefix=prefix,
        present=german_present(infinitive, third),
        participle=participle,
        auxiliary="sein" if sein else "haben",
        aspect=aspect,
        subjects=select(subjects),
        human="people" in subjects or "adults" in subjects,
        complements=tuple(parse_complement(part) for part in governed.split(";") if ":" in part),
        direction=direction,
        places=select(" ".join(name for name in names if name != "city"))
        + (TOWNS if "city" in names else ()),
    )


ALL_VERBS = tuple(parse_verb(row) for row in rows(VERBS))
# Verbs that only certain sentence patterns use.
BE = parse_verb("be was | sein ist gewesen ist | state | people | -")
HAVE = parse_verb("have had | haben hat gehabt | state | people | -")
KNOW = parse_verb("know knew | wissen weiß gewusst | state | people | -")
HUMAN_VERBS = tuple(verb for verb in ALL_VERBS if verb.human)
# Verbs that can be negated; with Deutsch and Schach both kein and nicht would be possible.
DENIABLE = tuple(
    verb
    for verb in ALL_VERBS
    if not any(
        noun.kind in ("language", "game") for part in verb.complements for noun in part.nouns
    )
)
# Verbs whose last object can be asked for or replaced by a relative pronoun.
GAPPED = tuple(
    (verb, verb.complements[-1])
    for verb in ALL_VERBS
    if verb.complements and verb.base not in ("speak", "learn", "play", "write", "dream")
)
