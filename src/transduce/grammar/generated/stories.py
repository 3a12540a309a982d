"""Short stories with a question, after the tasks of Weston et al. (2015), in our own wording.

People walk from place to place, take things and leave them. Where a person is follows from one
sentence, the latest about this person. Where a thing is follows from two: the latest about the
thing, which names a person, and where this person was then, or is now while holding it. A thing is
taken only where it is, so every story is a possible one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from transduce.data.corpus import Pair

PEOPLE = ("anna", "boris", "clara", "david")
PLACES = ("attic", "cellar", "garden", "garage", "kitchen", "library")
THINGS = ("apple", "ball", "lamp")
GOES = ("went to", "walked to", "ran to")
TAKES = ("took", "grabbed", "picked up")
LEAVES = ("left", "dropped", "put down")


@dataclass
class World:
    """Where everybody and everything is, as the story goes on."""

    rng: Random
    place_of: dict[str, str] = field(default_factory=dict)  # of people, once it was told
    holder_of: dict[str, str] = field(default_factory=dict)  # of things that somebody holds
    lies_in: dict[str, str] = field(default_factory=dict)  # of things that nobody holds
    told_of: set[str] = field(default_factory=set)  # things that somebody took

    def __post_init__(self) -> None:
        self.lies_in = {thing: self.rng.choice(PLACES) for thing in THINGS}

    def where_is(self, thing: str) -> str:
        """Return the place of a thing, whether somebody holds it or not."""
        if thing in self.holder_of:
            return self.place_of[self.holder_of[thing]]
        return self.lies_in[thing]

    def move(self) -> str:
        """Let somebody go to another place."""
        person = self.rng.choice(PEOPLE)
        others = [place for place in PLACES if place != self.place_of.get(person)]
        self.place_of[person] = self.rng.choice(others)
        return f"{person} {self.rng.choice(GOES)} the {self.place_of[person]}"

    def take(self) -> str | None:
        """Let somebody take a thing that lies where this person is, if there is one."""
        possible = [
            (person, thing)
            for person, place in self.place_of.items()
            for thing, lies_in in self.lies_in.items()
            if place == lies_in
        ]
        if not possible:
            return None
        person, thing = self.rng.choice(possible)
        del self.lies_in[thing]
        self.holder_of[thing] = person
        self.told_of.add(thing)
        return f"{person} {self.rng.choice(TAKES)} the {thing}"

    def leave(self) -> str | None:
        """Let somebody leave a thing behind, if somebody holds one."""
        if not self.holder_of:
            return None
        thing = self.rng.choice(sorted(self.holder_of))
        person = self.holder_of.pop(thing)
        self.lies_in[thing] = self.place_of[person]
        return f"{person} {self.rng.choice(LEAVES)} the {thing}"


def draw_one_fact(rng: Random, length: int) -> Pair:
    """Draw a story of so many sentences and ask where a person is: one supporting fact."""
    world = World(rng)
    sentences = [world.move() for _ in range(length)]
    person = rng.choice(sorted(world.place_of))
    return _with_question(sentences, person, world.place_of[person])


def draw_two_facts(rng: Random, length: int) -> Pair:
    """Draw a story of so many sentences, at least 2, and ask where a thing is: two facts."""
    while True:
        world = World(rng)
        sentences = [_next_sentence(world) for _ in range(length)]
        if world.told_of:  # else nothing was taken, and nobody could know
            thing = rng.choice(sorted(world.told_of))
            return _with_question(sentences, f"the {thing}", world.where_is(thing))


def _next_sentence(world: World) -> str:
    event: Callable[[], str | None]
    (event,) = world.rng.choices((world.move, world.take, world.leave), (4, 4, 1))
    return event() or world.move()


def _with_question(sentences: list[str], asked: str, answer: str) -> Pair:
    story = " . ".join(sentences)
    return Pair(f"{story} . where is {asked} ?", answer)
