"""The times, days and months."""

from transduce.grammar.wording import pairs

# Times by the tense that they suit; those within a day or so come first.
TIMES = {
    tense: pairs(table)
    for tense, table in {
        "present": "now/jetzt, at the moment/im Moment, today/heute",
        "habit": """
            every day/jeden Tag, every morning/jeden Morgen, every evening/jeden Abend,
            every week/jede Woche, on Mondays/montags, on Fridays/freitags, on Sundays/sonntags""",
        "past": """
            yesterday/gestern, yesterday evening/gestern Abend, this morning/heute Morgen,
            last week/letzte Woche, last weekend/letztes Wochenende, last month/letzten Monat""",
        "modal": "today/heute, tomorrow/morgen, tomorrow evening/morgen Abend, tonight/heute Abend",
        "future": """
            tomorrow/morgen, tomorrow evening/morgen Abend, tonight/heute Abend, soon/bald,
            next week/nächste Woche, next weekend/nächstes Wochenende, next month/nächsten Monat""",
    }.items()
}
OFTEN = pairs(
    "often/oft, always/immer, sometimes/manchmal, rarely/selten, usually/meistens, never/nie"
)
WEEKDAYS = pairs("""
    Monday/Montag, Tuesday/Dienstag, Wednesday/Mittwoch, Thursday/Donnerstag, Friday/Freitag,
    Saturday/Samstag, Sunday/Sonntag""")
MONTHS = pairs("""
    January/Januar, February/Februar, March/März, April/April, May/Mai, June/Juni, July/Juli,
    August/August, September/September, October/Oktober, November/November, December/Dezember""")
