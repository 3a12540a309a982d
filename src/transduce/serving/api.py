"""The server's own protocol: the n best with their scores, word alignments, attention, streams."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import StreamingResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ConfigDict, Field

from transduce.analysis.alignment import alignment
from transduce.analysis.attention_page import packed_attention
from transduce.decoding.options import Options, Translation
from transduce.serving.keys import Keys
from transduce.serving.languages import name_of
from transduce.serving.refusal import Refused
from transduce.serving.service import Service, Translated, finite

MAX_BEAM = 16
USUAL_BEAM = Options().beam
Code = Annotated[str, Field(max_length=32)]


class Error(BaseModel):
    """Why there is no other answer."""

    error: str = Field(description="One sentence that says what to do.")


class _Question(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    source: Code = Field(
        default="auto", description="Language of the text; auto, where it can be but one."
    )
    target: Code | None = Field(
        default=None, description="Language to translate to; left out, where it can be but one."
    )
    n_best: int = Field(default=1, ge=1, le=8, description="How many translations of each line.")
    beam: int | None = Field(
        default=None,
        ge=1,
        le=MAX_BEAM,
        description="Hypotheses kept: 4, or n_best if that is more.",
    )
    alignment: bool = Field(default=False, description="Which word became which.")
    attention: bool = Field(default=False, description="The weights of every head of every layer.")

    def options(self) -> Options:
        """Say it in the translator's words."""
        beam = max(USUAL_BEAM, self.n_best) if self.beam is None else self.beam
        if self.n_best > beam:
            raise Refused(422, f"n_best={self.n_best} of beam={beam}: use a wider beam")
        return Options(beam, n_best=self.n_best, attention=self.attention or self.alignment)


class TranslateRequest(_Question):
    """Texts to translate."""

    text: str | Annotated[list[str], Field(min_length=1, max_length=1_000)] = Field(
        description="One text or several. Each of its lines is translated by itself.",
        examples=["A man is riding a bike."],
    )


class StreamRequest(_Question):
    """A document to translate."""

    text: str = Field(description="Its lines are its paragraphs.", examples=["A man.\n\nA dog."])


class Candidate(BaseModel):
    """One of the n best translations of a line."""

    text: str
    score: float | None = Field(
        description="Log-probability, divided by the length penalty; null if it is not finite."
    )


class Line(BaseModel):
    """A line and its translation."""

    source: str
    text: str
    score: float | None = Field(description="Of the text; 0 for a blank line.")
    alternatives: list[Candidate] = Field(description="The n best; the first is the text itself.")
    note: str = Field(description="What was out of the ordinary; mostly empty.")
    is_finished: bool = Field(description="False: it was cut off where its tokens were used up.")
    alignment: list[tuple[int, int]] | None = Field(
        default=None,
        description="Numbers, from 0, of words of the source and of the text that belong together.",
    )
    attention: list[dict[str, Any]] | None = Field(
        default=None,
        description="For each sentence: tokens of source, read and target; weights of encoder "
        "[layers, heads, source, source], decoder [.., target, read] and cross [.., target, "
        "source] as unsigned numbers of 16 bits, the lower byte first, in base64; 65535 is 1.",
    )


class TranslatedText(BaseModel):
    """A text and the translations of its lines."""

    text: str = Field(description="The whole translation; blank lines and line ends are kept.")
    lines: list[Line]


class TranslateAnswer(BaseModel):
    """Translations, in the order of the texts."""

    source: str
    target: str
    translations: list[TranslatedText]


class PairDescription(BaseModel):
    """A model."""

    source: str
    source_name: str
    target: str
    target_name: str


class Description(BaseModel):
    """What this server translates, and how much at a time."""

    pairs: list[PairDescription]
    needs_key: bool
    max_characters: int
    max_attention_characters: int


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Document answers that tell why there is no other."""
    said = {
        400: "Not to be understood, or languages that this server does not translate.",
        403: "No key, or a wrong one.",
        408: "The body took too long to arrive.",
        413: "Too much at once, or too much for the time there is.",
        422: "A field is missing, unknown, or not what it must be.",
        429: "Too much to do: try again after Retry-After seconds.",
    }
    return {status: {"model": Error, "description": said[status]} for status in statuses}


_bearer = HTTPBearer(auto_error=False, description="A key, if this server needs one.")


def check_key(keys: Keys, *given: str | None) -> None:
    """Refuse who has no key; the first that is given counts."""
    if not keys.allow(next((key for key in given if key), None)):
        raise Refused(403, "this server needs a key, and this is none of its keys")


def bearer_of(request: Request) -> str | None:
    """Read the key in the head of a request."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None


def make_api(service: Service, keys: Keys) -> APIRouter:
    """Make the routes below /v1."""
    router = APIRouter(prefix="/v1", tags=["transduce"])

    def allowed(
        given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
    ) -> None:
        check_key(keys, given.credentials if given else None)

    only_with_key = [Depends(allowed)] if keys.are_needed else []  # or a key would be documented

    @router.post(
        "/translate",
        dependencies=only_with_key,
        response_model_exclude_unset=True,  # what was not asked for
        responses=refusals(400, 403, 408, 413, 422, 429),
    )
    async def translate(question: TranslateRequest) -> TranslateAnswer:
        """Translate texts: the n best of each line with scores, alignment and attention."""
        pair = service.pair(question.source, question.target)
        texts = [question.text] if isinstance(question.text, str) else question.text
        found = await service.translate(pair, texts, question.options())
        return TranslateAnswer(
            source=pair.source,
            target=pair.target,
            translations=[_described(one, question) for one in found],
        )

    @router.post(
        "/stream",
        dependencies=only_with_key,
        response_class=StreamingResponse,
        responses={
            200: {
                "description": "A JSON object a line, for each line of the text and in its order: "
                "as in /v1/translate. If it cannot go on, the last one has an `error`.",
                "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
            },
            **refusals(400, 403, 408, 413, 422, 429),
        },
    )
    async def stream(question: StreamRequest) -> StreamingResponse:
        """Translate a long document: lines come as soon as they are translated."""
        pair = service.pair(question.source, question.target)
        lines = service.stream(pair, question.text, question.options())
        first = await anext(lines)  # whatever is refused is refused before the answer begins

        async def rows() -> AsyncIterator[bytes]:
            yield _row(_line(first, question))
            try:
                async for line in lines:
                    yield _row(_line(line, question))
            except Refused as refused:
                yield _row(Error(error=refused.message))

        return StreamingResponse(rows(), media_type="application/x-ndjson")

    @router.get("/models")
    async def models() -> Description:
        """Tell which languages this server translates, and how much at a time."""
        return Description(
            pairs=[
                PairDescription(
                    source=pair.source,
                    source_name=name_of(pair.source),
                    target=pair.target,
                    target_name=name_of(pair.target),
                )
                for pair in service.pairs
            ],
            needs_key=keys.are_needed,
            max_characters=service.limits.max_characters,
            max_attention_characters=service.limits.max_attention_characters,
        )

    return router


def _described(one: Translated, question: _Question) -> TranslatedText:
    return TranslatedText(
        text=one.document.with_lines([line.text for line in one.lines]),
        lines=[_line(line, question) for line in one.lines],
    )


def _line(line: Translation, question: _Question) -> Line:
    shown: dict[str, Any] = {}
    if question.alignment:
        shown["alignment"] = alignment(line.attention, source=line.source, translation=line.text)
    if question.attention:
        shown["attention"] = packed_attention(line.attention)
    return Line(
        source=line.source,
        text=line.text,
        score=finite(line.score),
        alternatives=[
            Candidate(text=text, score=finite(score)) for text, score in line.alternatives
        ],
        note=line.note,
        is_finished=line.is_finished,
        **shown,
    )


def _row(content: BaseModel) -> bytes:
    return content.model_dump_json(exclude_unset=True).encode() + b"\n"
