"""What was found for encoded lines, as translations with attention and markup."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from transduce.models.attention import Attention, attention_of
from transduce.tasks.base import Task
from transduce.text.markup.marked import MarkedText
from transduce.text.special_ids import EOS_ID
from transduce.text.tokenizer import Tokenizer
from transduce.translation.engine import Engine, SearchResult
from transduce.translation.markup.tags import UntaggedLine, put_tags_back
from transduce.translation.options import Options, Translation
from transduce.translation.sentences.encode import EncodedLine
from transduce.translation.sentences.join import (
    TranslatedSentence,
    joined,
    pieces_of_alternatives,
    read_results,
)


@dataclass(frozen=True)
class ResultReader:
    """Reads what an engine found."""

    engine: Engine
    tokenizer: Tokenizer
    task: Task

    def read(
        self, lines: Sequence[EncodedLine], results: Sequence[SearchResult], options: Options
    ) -> list[Translation]:
        """Return a translation for each line; `results` are those of all sentences, in order."""
        sentences = [sentence for line in lines for sentence in line.sentences]
        texts = read_results(sentences, results, self.tokenizer, self.task)
        translations: list[Translation] = []
        untagged: dict[int, UntaggedLine] = {}  # by the number of the line
        for number, line in enumerate(lines):
            of_line = list(islice(texts, len(line.sentences)))
            translation = joined(line, of_line, alpha=options.alpha)
            if options.attention:
                translation = replace(translation, attention=self._attention(of_line))
            translations.append(translation)
            if isinstance(line.source, MarkedText):
                pieces = pieces_of_alternatives(line, of_line)
                untagged[number] = UntaggedLine(line.source, translation, pieces)
        tagged = put_tags_back(list(untagged.values()), self.engine, self.tokenizer)
        for number, translation in zip(untagged, tagged, strict=True):
            translations[number] = translation
        return translations

    def _attention(self, sentences: Sequence[TranslatedSentence]) -> tuple[Attention, ...]:
        """Return the attention for each sentence and its best translation."""
        model = self.engine.attention_model()
        chosen = ((one.sentence, one.hypotheses[0]) for one in sentences)
        return tuple(
            attention_of(
                model,
                self.tokenizer,
                sentence.ids,
                best.ids + [EOS_ID] * (best.is_finished or not best.ids),
                values=sentence.values,
            )
            for sentence, best in chosen
        )
