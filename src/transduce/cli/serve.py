"""`transduce serve`: translations over HTTP, and a web page."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.terminal.options import (
    DeviceOption,
    EngineOption,
    PrecisionOption,
    ShortlistOption,
)
from transduce.cli.translation.options import MemoryFieldsOption

if TYPE_CHECKING:
    from transduce.serving.keys import Keys
    from transduce.serving.languages import LanguagePair
    from transduce.text.detection import LanguageDetector
    from transduce.text.phrases.glossary import Glossary
    from transduce.translation.memory.units import TranslationMemory
    from transduce.translation.translator import Translator

ModelsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL",
        help="Model folders or runs; en-de=FOLDER if the folder does not tell its languages.",
    ),
]
HostOption = Annotated[str, typer.Option(help="Address to listen on.")]
PortOption = Annotated[
    int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for any free one.")
]
GlossaryOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=FILE", help="A glossary that requests may name; may be repeated."),
]
MemoryOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=FILE", help="A translation memory that requests may name; may be repeated."
    ),
]
KeysOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="API keys, one per line; by default none is needed."),
]
AllowOriginOption = Annotated[
    list[str] | None,
    typer.Option(metavar="URL", help="A site whose pages may call the API; * for all."),
]
AllowHostOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="A host name to answer to without --keys; * for all."),
]
MaxCharactersOption = Annotated[int, typer.Option(help="Maximum characters of a request.")]
MaxSentencesOption = Annotated[int, typer.Option(help="Maximum sentences of a request.")]
MaxBodyBytesOption = Annotated[
    int, typer.Option(help="Maximum bytes of a request, streamed documents included.")
]
MaxQueueOption = Annotated[
    int, typer.Option(help="Maximum sentences waiting; beyond it, requests get 429.")
]
MaxConnectionsPerClientOption = Annotated[
    int, typer.Option(help="Maximum connections from one address, as from a proxy.")
]
DeadlineOption = Annotated[
    float, typer.Option(metavar="SECONDS", help="Time for a response; then it is cancelled.")
]
MaxBatchOption = Annotated[int, typer.Option(help="Maximum sentences translated together.")]
WaitMsOption = Annotated[
    float, typer.Option(help="Milliseconds that a batch waits for more sentences.")
]


def serve(
    models: ModelsArgument,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8000,
    glossary: GlossaryOption = None,
    memory: MemoryOption = None,
    memory_fields: MemoryFieldsOption = "src,tgt",
    keys: KeysOption = None,
    allow_origin: AllowOriginOption = None,
    allow_host: AllowHostOption = None,
    max_characters: MaxCharactersOption = 10_000,
    max_sentences: MaxSentencesOption = 200,
    max_body_bytes: MaxBodyBytesOption = 1 << 20,
    max_queue: MaxQueueOption = 1_000,
    max_connections_per_client: MaxConnectionsPerClientOption = 512,
    deadline: DeadlineOption = 30.0,
    max_batch: MaxBatchOption = 64,
    wait_ms: WaitMsOption = 3.0,
    device: DeviceOption = "auto",
    engine: EngineOption = None,
    precision: PrecisionOption = "float32",
    shortlist: ShortlistOption = False,
) -> None:
    """Serve models over HTTP: a web page, a JSON API, and LibreTranslate's API."""
    _check_installed()
    import transduce
    from transduce.serving.app import make_app
    from transduce.serving.http.sites import Sites
    from transduce.serving.limits import Limits
    from transduce.serving.server import listen, serve

    limits = Limits(
        max_body_bytes=max_body_bytes,
        max_characters=max_characters,
        max_sentences=max_sentences,
        max_queue=max_queue,
        max_connections_per_client=max_connections_per_client,
        deadline_s=deadline,
    )
    _check_batching(max_batch, wait_ms)
    known, glossaries = _keys(keys), _glossaries(glossary or [])
    memories = _memories(memory or [], memory_fields)
    sites = Sites(allow_origin or [], [host, *(allow_host or [])], has_keys=known.are_needed)
    with listen(host, port) as listening:
        translators = _load(
            models, device=device, precision=precision, engine=engine, shortlist=shortlist
        )
        app = make_app(
            translators,
            version=transduce.__version__,
            limits=limits,
            keys=known,
            sites=sites,
            glossaries=glossaries,
            memories=memories,
            detector=_detector(),
            max_batch=max_batch,
            wait_s=wait_ms / 1_000,
        )
        where, is_open = listening.getsockname(), not known.are_needed
        report = partial(_report_address, where, list(translators), is_open=is_open)
        serve(app, listening, limits, ready=report, sites=sites)
    typer.echo("all accepted requests are done; stopped", err=True)


def _check_installed() -> None:
    from importlib import util

    from transduce.errors import InputError, how_to_install

    for name in ("fastapi", "uvicorn", "prometheus_client", "python_multipart"):
        if util.find_spec(name) is None:
            raise InputError(f"serving needs {name}: {how_to_install('serve')}")


def _detector() -> "LanguageDetector | None":
    """Load the detector of languages, or say how to install it."""
    from transduce.errors import how_to_install
    from transduce.text.detection import LanguageDetector

    detector = LanguageDetector.if_installed()
    if detector is None:
        typer.echo(f"languages are not detected: {how_to_install('detect')}", err=True)
    return detector


def _check_batching(max_batch: int, wait_ms: float) -> None:
    from transduce.errors import InputError

    if max_batch < 1:
        raise InputError(f"--max-batch {max_batch}: use 1 or more")
    if not 0 <= wait_ms <= 1_000:
        raise InputError(f"--wait-ms {wait_ms:g}: use 0 to 1,000")


def _keys(path: Path | None) -> "Keys":
    """Read the keys of a file; without one, no key is needed."""
    from transduce.data.corpus import read_lines
    from transduce.serving.keys import Keys

    if path is None:
        return Keys()
    return Keys.from_lines(read_lines(path), name=str(path))


def _glossaries(arguments: list[str]) -> "dict[str, Glossary]":
    """Read the glossaries that are given as NAME=FILE."""
    from transduce.translation.wording.read import read_glossary

    return {name: read_glossary(path) for name, path in _named("--glossary", arguments).items()}


def _memories(arguments: list[str], fields: str) -> "dict[str, TranslationMemory]":
    """Read the translation memories that are given as NAME=FILE."""
    from transduce.translation.memory.read import read_memory

    named = _named("--memory", arguments)
    return {name: read_memory(path, fields=fields) for name, path in named.items()}


def _named(option: str, arguments: list[str]) -> dict[str, str]:
    """Read files that are given as NAME=FILE."""
    from transduce.errors import InputError

    found: dict[str, str] = {}
    for argument in arguments:
        name, sign, path = argument.partition("=")
        if not sign or not name or not path or len(name) > 100:
            raise InputError(f"{option} {argument}: write NAME=FILE, such as law=law.tsv")
        if name in found:
            raise InputError(f"{option} {name}=… is given twice: use different names")
        found[name] = path
    return found


def _load(
    models: list[str], *, device: str, precision: str, engine: str | None, shortlist: bool = False
) -> "dict[LanguagePair, Translator]":
    """Load the models, after the languages of all are known: loading takes a while."""
    from transduce.translation.load import load

    folders = _folders(models)
    loaded: dict[Path, Translator] = {}
    translators = {}
    for pair, folder in folders.items():
        if folder not in loaded:
            pairs = [str(one) for one, path in folders.items() if path == folder]
            typer.echo(f"loading {', '.join(pairs)} from {folder}", err=True)
            loaded[folder] = load(
                folder,
                device,
                precision=precision,  # type: ignore[arg-type]
                engine=engine,  # type: ignore[arg-type]
                shortlist=shortlist,
            )
        model = loaded[folder]
        translators[pair] = model.into(pair.target) if model.languages else model
    return translators


def _folders(models: list[str]) -> "dict[LanguagePair, Path]":
    from transduce.config.load import load_config
    from transduce.errors import InputError
    from transduce.models.model_files import CONFIG, settings_folder
    from transduce.models.other_formats import check_has_settings
    from transduce.serving.languages import language_pairs, parse_model_argument

    folders: dict[LanguagePair, Path] = {}
    for argument in models:
        pair, path = parse_model_argument(argument)
        check_has_settings(Path(path))
        config = load_config(settings_folder(Path(path)) / CONFIG)
        pairs = language_pairs(config) if pair is None else [pair]
        if not pairs:
            raise InputError(f"{path} does not tell its languages: name them, as in en-de={path}")
        for one in pairs:
            if one in folders:
                raise InputError(f"{folders[one]} and {path} are both for {one}: serve one of them")
            folders[one] = Path(path)
    return folders


def _report_address(
    address: tuple[str, int], pairs: "list[LanguagePair]", *, is_open: bool
) -> None:
    import ipaddress

    host, port = address[:2]
    shown = f"[{host}]" if ":" in host else host
    typer.echo(
        f"serving {', '.join(map(str, pairs))} at http://{shown}:{port} (Ctrl-C stops)", err=True
    )
    if is_open and not ipaddress.ip_address(host).is_loopback:
        typer.echo(
            "anyone who can reach this address can use it: restrict it with --keys", err=True
        )
