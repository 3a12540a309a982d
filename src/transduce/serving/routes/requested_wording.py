"""What a request asks of the words of its translations, and the glossaries that a server knows."""

from collections.abc import Mapping, Sequence
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from transduce.errors import InputError
from transduce.serving.refusal import Refused
from transduce.text.phrases.glossary import Glossary
from transduce.translation.wording.read import as_glossary, wording
from transduce.translation.wording.rules import NO_WORDING, Wording

MAX_TERMS, MAX_TERM, MAX_TERMS_CHARACTERS = 200, 100, 4_000
"""Terms of a request; characters of one, and of all of them: they cost time on the model thread."""
MAX_FORBIDDEN = 50

Named = TypeVar("Named")
TermText = Annotated[str, Field(min_length=1, max_length=MAX_TERM)]


class RequestedWording(BaseModel):
    """The fields of a request that say what its translations must contain, and must not."""

    model_config = ConfigDict(extra="forbid", strict=True)

    glossary: Annotated[str, Field(max_length=100)] | None = Field(
        default=None, description="Name of a glossary of this server; GET /v1/models lists them."
    )
    terms: Annotated[
        dict[TermText, Annotated[str, Field(max_length=MAX_TERM)] | list[TermText]],
        Field(max_length=MAX_TERMS),
    ] = Field(
        default_factory=dict,
        description="Terms that must be translated so, with alternatives as a list; '' or '=': it "
        "stays as it is. They come before those of the glossary.",
        examples=[{"dog": "Hund", "bike": ["Rad", "Fahrrad"]}],
    )
    soft: bool = Field(
        default=False,
        description="Terms are hints, which the model may inflect; for models trained with them.",
    )
    forbid: Annotated[list[TermText], Field(max_length=MAX_FORBIDDEN)] = Field(
        default_factory=list, description="Words and phrases that no translation contains."
    )
    keep_placeholders: bool = Field(
        default=False,
        description="Copy addresses, {name}, %s, quantities with units and emoji, each once.",
    )

    def wording(self, glossaries: Mapping[str, Glossary]) -> Wording:
        """Return the wording that is asked for; refuse a glossary that the server does not know."""
        if not (self.glossary or self.terms or self.forbid or self.keep_placeholders):
            return NO_WORDING
        named = by_name(glossaries, self.glossary, "glossary")
        _check_size(self.terms)
        try:
            own = as_glossary(self.terms)
            both = Glossary((*own.terms, *(named.terms if named else ()))) if own.terms else None
            chosen = both or named
            return wording(
                chosen,
                forbid=self.forbid,
                keep_placeholders=self.keep_placeholders,
                soft=self.soft and chosen is not None,
            )
        except InputError as fault:
            raise Refused(400, str(fault)) from fault


def by_name(known: Mapping[str, Named], name: str | None, what: str) -> Named | None:
    """Return what a request names, None if it names nothing; refuse what is not known."""
    if name is None:
        return None
    if name not in known:
        raise Refused(400, f"unknown {what}; this server has: {', '.join(known) or 'none'}")
    return known[name]


def _check_size(terms: Mapping[str, str | Sequence[str]]) -> None:
    size = sum(len(source) + sum(map(len, to)) for source, to in terms.items())
    if size > MAX_TERMS_CHARACTERS:
        raise Refused(
            413,
            f"terms of {size:,} characters, but the limit is {MAX_TERMS_CHARACTERS:,}: "
            "send fewer, or have them loaded with the server",
        )
