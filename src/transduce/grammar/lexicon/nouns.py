"""The nouns, by kind, and the names of people and towns.

The tables are text, with entries separated by commas or line breaks, so that a speaker of both
languages can proofread them. They omit what a rule derives: regular plurals, -ing and du forms.
"""

from transduce.data.corpus import Pair
from transduce.grammar.features import Noun
from transduce.grammar.inflection import english_plural
from transduce.grammar.wording import NOTHING, words

NOUNS = {
    "person": """
        man/men Mann m Männer, woman/women Frau f Frauen, teacher Lehrer m Lehrer,
        student Student w Studenten, doctor Arzt m Ärzte, farmer Bauer w Bauern,
        artist Künstler m Künstler, actor Schauspieler m Schauspieler, singer Sänger m Sänger,
        police_officer Polizist w Polizisten, tourist Tourist w Touristen, guest Gast m Gäste,
        customer Kunde w Kunden, lawyer Anwalt m Anwälte, baker Bäcker m Bäcker,
        writer Schriftsteller m Schriftsteller, colleague Kollege w Kollegen,
        nurse Krankenschwester f Krankenschwestern, waiter Kellner m Kellner, king König m Könige,
        queen Königin f Königinnen, journalist Journalist w Journalisten, judge Richter m Richter,
        engineer Ingenieur m Ingenieure, soldier Soldat w Soldaten, gardener Gärtner m Gärtner,
        scientist Wissenschaftler m Wissenschaftler, musician Musiker m Musiker""",
    "child": "child/children Kind n Kinder, boy Junge w Jungen, girl Mädchen n Mädchen",
    "relative": """
        brother Bruder m Brüder, sister Schwester f Schwestern, uncle Onkel m Onkel,
        aunt Tante f Tanten, son Sohn m Söhne, daughter Tochter f Töchter, friend Freund m Freunde,
        neighbor Nachbar w Nachbarn, nephew Neffe w Neffen, niece Nichte f Nichten""",
    "elder": """
        father Vater m Väter, mother Mutter f Mütter, grandfather Großvater m Großväter,
        grandmother Großmutter f Großmütter, boss Chef m Chefs""",
    "pet": "dog Hund m Hunde, cat Katze f Katzen, rabbit Kaninchen n Kaninchen",
    "livestock": """
        horse Pferd n Pferde, cow Kuh f Kühe, duck Ente f Enten, goose/geese Gans f Gänse,
        pig Schwein n Schweine, goat Ziege f Ziegen, donkey Esel m Esel, hen Henne f Hennen""",
    "beast": """
        bear Bär w Bären, lion Löwe w Löwen, elephant Elefant w Elefanten, monkey Affe w Affen,
        fox Fuchs m Füchse, wolf/wolves Wolf m Wölfe, tiger Tiger m Tiger, camel Kamel n Kamele,
        snake Schlange f Schlangen, bird Vogel m Vögel""",
    "fruit": """
        apple Apfel m Äpfel, pear Birne f Birnen, banana Banane f Bananen, orange Orange f Orangen,
        tomato/tomatoes Tomate f Tomaten, carrot Karotte f Karotten, egg Ei n Eier,
        potato/potatoes Kartoffel f Kartoffeln, mushroom Pilz m Pilze, lemon Zitrone f Zitronen""",
    "dish": """
        cake Kuchen m Kuchen, pizza Pizza f Pizzen, soup Suppe f Suppen, salad Salat m Salate,
        sausage Wurst f Würste, roll Brötchen n Brötchen, cookie Keks m Kekse""",
    "staple": """
        bread Brot n -, cheese Käse m -, rice Reis m -, meat Fleisch n -, fish Fisch m -,
        butter Butter f -, fruit Obst n -, honey Honig m -, chocolate Schokolade f -""",
    "drink": """
        water Wasser n -, milk Milch f -, coffee Kaffee m -, tea Tee m -, juice Saft m -,
        beer Bier n -, wine Wein m -, lemonade Limonade f -""",
    "press": """
        book Buch n Bücher, newspaper Zeitung f Zeitungen, magazine Zeitschrift f Zeitschriften,
        novel Roman m Romane, dictionary Wörterbuch n Wörterbücher""",
    "text": """
        letter Brief m Briefe, story Geschichte f Geschichten, poem Gedicht n Gedichte,
        report Bericht m Berichte, message Nachricht f Nachrichten""",
    "work": "song Lied n Lieder, movie Film m Filme",
    "thing": """
        key Schlüssel m Schlüssel, phone Handy n Handys, umbrella Regenschirm m Regenschirme,
        ring Ring m Ringe, cup Tasse f Tassen, plate Teller m Teller, knife/knives Messer n Messer,
        spoon Löffel m Löffel, fork Gabel f Gabeln, bottle Flasche f Flaschen, ball Ball m Bälle,
        picture Bild n Bilder, ticket Fahrkarte f Fahrkarten, pencil Bleistift m Bleistifte,
        doll Puppe f Puppen, candle Kerze f Kerzen, gift Geschenk n Geschenke,
        guitar Gitarre f Gitarren, mirror Spiegel m Spiegel, blanket Decke f Decken,
        pillow Kissen n Kissen, towel Handtuch n Handtücher, wallet Brieftasche f Brieftaschen,
        notebook Heft n Hefte, flower Blume f Blumen, camera Kamera f Kameras,
        clock Uhr f Uhren, hammer Hammer m Hämmer, toothbrush Zahnbürste f Zahnbürsten""",
    "luggage": """
        bag Tasche f Taschen, suitcase Koffer m Koffer, box Kiste f Kisten, basket Korb m Körbe,
        backpack Rucksack m Rucksäcke""",
    "clothing": """
        shirt Hemd n Hemden, jacket Jacke f Jacken, coat Mantel m Mäntel, dress Kleid n Kleider,
        skirt Rock m Röcke, hat Hut m Hüte, sweater Pullover m Pullover,
        scarf/scarves Schal m Schals, tie Krawatte f Krawatten, blouse Bluse f Blusen,
        cap Mütze f Mützen, raincoat Regenmantel m Regenmäntel""",
    "device": """
        computer Computer m Computer, radio Radio n Radios, lamp Lampe f Lampen,
        television Fernseher m Fernseher, washing_machine Waschmaschine f Waschmaschinen,
        printer Drucker m Drucker""",
    "vehicle": """
        car Auto n Autos, bicycle Fahrrad n Fahrräder, motorcycle Motorrad n Motorräder,
        boat Boot n Boote, truck Lastwagen m Lastwagen""",
    "transport": "bus Bus m Busse, train Zug m Züge, ship Schiff n Schiffe",
    "furniture": """
        table Tisch m Tische, chair Stuhl m Stühle, bed Bett n Betten, sofa Sofa n Sofas,
        desk Schreibtisch m Schreibtische, cupboard Schrank m Schränke""",
    "opening": "door Tür f Türen, window Fenster n Fenster, gate Tor n Tore",
    "issue": """
        question Frage f Fragen, answer Antwort f Antworten, problem Problem n Probleme,
        rule Regel f Regeln, plan Plan m Pläne, word Wort n Wörter, sentence Satz m Sätze,
        task Aufgabe f Aufgaben, idea Idee f Ideen, mistake Fehler m Fehler""",
    "paper": "bill Rechnung f Rechnungen, form Formular n Formulare",
    "plant": "tree Baum m Bäume, rose Rose f Rosen, bush Busch m Büsche",
    "language": """
        German Deutsch n -, English Englisch n -, French Französisch n -,
        Spanish Spanisch n -, Italian Italienisch n -, Polish Polnisch n -,
        Russian Russisch n -, Japanese Japanisch n -""",
    "game": "chess Schach n -, football Fußball m -, tennis Tennis n -, basketball Basketball m -",
    # A place has four prepositions: English and German for at it, English and German for to it.
    "outdoors": """
        garden Garten m Gärten in in into in, park Park m Parks in in to in,
        forest Wald m Wälder in in into in, lake See m Seen at an to zu,
        beach Strand m Strände on an to an, playground Spielplatz m Spielplätze at auf to auf,
        farm Bauernhof m Bauernhöfe on auf to auf, village Dorf n Dörfer in in to in""",
    "indoors": """
        kitchen Küche f Küchen in in into in, room Zimmer n Zimmer in in into in,
        office Büro n Büros in in to in, library Bibliothek f Bibliotheken in in to in,
        school Schule f Schulen at in to zu, university Universität f Universitäten at an to zu,
        hospital Krankenhaus n Krankenhäuser in in to in, hotel Hotel n Hotels at in to zu,
        house Haus n Häuser in in into in, apartment Wohnung f Wohnungen in in into in""",
    "shop": """
        market Markt m Märkte at auf to auf, supermarket Supermarkt m Supermärkte in in to in,
        bakery Bäckerei f Bäckereien in in to zu, pharmacy Apotheke f Apotheken in in to zu""",
    "outing": """
        restaurant Restaurant n Restaurants in in to in, cinema Kino n Kinos at in to in,
        theater Theater n Theater at in to in, museum Museum n Museen in in to in,
        church Kirche f Kirchen in in to in, castle Schloss n Schlösser in in to zu,
        swimming_pool Schwimmbad n Schwimmbäder at in to in, zoo Zoo m Zoos in in to in""",
    "stop": """
        station Bahnhof m Bahnhöfe at an to zu, airport Flughafen m Flughäfen at an to zu,
        harbor Hafen m Häfen at an to zu""",
}
# Kinds of noun whose English pronouns are who, he and she.
HUMAN = ("person", "child", "relative", "elder")
GROUPS = {
    "kin": "relative elder",
    "produce": "fruit dish press text clothing thing pet livestock beast plant paper",
    "folk": "person child relative elder",
    "people": "person child relative elder",
    "adults": "person relative elder",
    "animals": "pet livestock",
    "things": "thing press luggage clothing device vehicle furniture",
    "colored": "umbrella cup plate bottle ball pencil doll candle blanket pillow towel notebook",
    "pretty": "ring cup plate picture doll candle gift guitar mirror blanket clock flower",
    "garment": "shirt jacket coat dress skirt sweater blouse raincoat",
    "flat": "key phone umbrella ring knife spoon fork ball picture ticket pencil doll gift",
    "laid": "blanket pillow towel wallet notebook camera hammer toothbrush press letter clothing",
}
MALE = words("""
    man king brother uncle son nephew father grandfather
    Peter Paul Martin David Daniel Simon Jan Leon Tom Robert""")
FEMALE = words("""
    woman queen nurse sister aunt daughter niece mother grandmother
    Anna Maria Laura Julia Sophie Emma Lena Clara Eva Paula""")
NAMES = tuple(name for name in MALE + FEMALE if name[0].isupper())
CITIES = """
    Berlin Hamburg Dresden Madrid Paris London Munich/München Vienna/Wien Cologne/Köln Rome/Rom
    Prague/Prag Zurich/Zürich Geneva/Genf Warsaw/Warschau Brussels/Brüssel Lisbon/Lissabon
    Athens/Athen Copenhagen/Kopenhagen Germany/Deutschland France/Frankreich Italy/Italien
    Spain/Spanien Austria/Österreich Poland/Polen Greece/Griechenland Norway/Norwegen"""


def parse_noun(kind: str, entry: str) -> Noun:
    """Parse an entry of NOUNS; gender w is weak masculine, plural - is a noun without a plural."""
    english, german, gender, german_plural, *prepositions = entry.split()
    singular, _, plural = english.replace("_", " ").partition("/")
    at, to = (Pair(*prepositions[i : i + 2]) if prepositions else NOTHING for i in (0, 2))
    return Noun(
        kind=kind,
        english=singular,
        english_plural=plural or english_plural(singular),
        german=german,
        german_plural=german_plural,
        gender="f" if gender == "f" else "n" if gender == "n" else "m",
        weak=gender == "w",
        at=at,
        to=to,
    )


def select(selectors: str) -> tuple[Noun, ...]:
    """Return the nouns of the named groups, kinds or words, in the order of the table."""
    names = " ".join(GROUPS.get(name, name) for name in selectors.split()).split()
    unknown = [name for name in names if name not in NOUNS and name not in BY_ENGLISH]
    assert not unknown, f"no kind or noun named {unknown}"
    words = {name.replace("_", " ") for name in names if name not in NOUNS}
    return tuple(noun for noun in ALL_NOUNS if noun.kind in names or noun.english in words)


ALL_NOUNS = tuple(
    parse_noun(kind, entry) for kind, entries in NOUNS.items() for entry in entries.split(",")
)
BY_ENGLISH = {noun.english.replace(" ", "_"): noun for noun in ALL_NOUNS}
TOWNS = tuple(Pair(*(town.split("/") * 2)[:2]) for town in CITIES.split())
