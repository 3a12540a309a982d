"""`transduce serve`: translations over HTTP, and a page to type on."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from transduce.decoding.translator import Translator
    from transduce.serving.keys import Keys
    from transduce.serving.languages import Pair


def serve(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="Folders of models; as en-de=FOLDER where the languages are not known.",
        ),
    ],
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 for any that is free.")] = 8000,
    keys: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="API keys, one a line; without, everybody may ask."),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="A site whose pages may ask, too; * for all."),
    ] = None,
    max_characters: Annotated[int, typer.Option(help="Of a request.")] = 10_000,
    max_sentences: Annotated[int, typer.Option(help="Of a request.")] = 200,
    max_body_bytes: Annotated[
        int, typer.Option(help="Of a request; documents that are streamed fit into it.")
    ] = 1 << 20,
    max_queue: Annotated[
        int, typer.Option(help="Sentences waiting; more are told to come again.")
    ] = 1_000,
    deadline: Annotated[
        float, typer.Option(metavar="SECONDS", help="What is not done by then is given up.")
    ] = 30.0,
    max_batch: Annotated[int, typer.Option(help="Sentences translated together.")] = 64,
    wait_ms: Annotated[
        float, typer.Option(help="How long a batch waits for others that may come.")
    ] = 3.0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    engine: Annotated[
        str | None, typer.Option(help="torch, ctranslate2 or auto; without, what MODEL is for.")
    ] = None,
    precision: Annotated[str, typer.Option(help="float32, or bf16: faster on GPUs.")] = "float32",
) -> None:
    """Serve models over HTTP: a page, a JSON API, and LibreTranslate's API for its clients."""
    _check_extra()
    import transduce
    from transduce.errors import InputError
    from transduce.serving.app import make_app
    from transduce.serving.keys import Keys
    from transduce.serving.limits import Limits
    from transduce.serving.server import listen, serve

    limits = Limits(
        max_body_bytes=max_body_bytes,
        max_characters=max_characters,
        max_sentences=max_sentences,
        max_queue=max_queue,
        deadline_s=deadline,
    )
    if max_batch < 1 or not 0 <= wait_ms <= 1_000:
        raise InputError("--max-batch: use 1 or more; --wait-ms: use 0 to 1,000")
    known = Keys() if keys is None else _keys(keys)
    with listen(host, port) as listening:
        translators = _load(models, device=device, precision=precision, engine=engine)
        app = make_app(
            translators,
            version=transduce.__version__,
            limits=limits,
            keys=known,
            origins=allow_origin or [],
            max_batch=max_batch,
            wait_s=wait_ms / 1_000,
        )
        where, pairs = listening.getsockname(), list(translators)
        say_where = partial(_say_where, where, pairs, is_open=not known.are_needed)
        serve(app, listening, limits, ready=say_where)
    typer.echo("finished what was taken; good-bye", err=True)


def _check_extra() -> None:
    from importlib import util

    from transduce.errors import InputError

    for name in ("fastapi", "uvicorn", "prometheus_client", "python_multipart"):
        if util.find_spec(name) is None:
            raise InputError(f"serving needs {name}: pip install 'transduce[serve]'")


def _keys(path: Path) -> "Keys":
    from transduce.data.corpus import read_lines
    from transduce.serving.keys import Keys

    return Keys.from_lines(read_lines(path), name=str(path))


def _load(
    models: list[str], *, device: str, precision: str, engine: str | None
) -> "dict[Pair, Translator]":
    """Find out all languages first: models take a while to load."""
    from transduce.decoding.translator import load

    folders = _folders(models)
    translators = {}
    for pair, folder in folders.items():
        typer.echo(f"loading {pair} from {folder}", err=True)
        translators[pair] = load(folder, device, precision=precision, engine=engine)  # type: ignore[arg-type]
    return translators


def _folders(models: list[str]) -> "dict[Pair, Path]":
    from transduce.config.load import load_config
    from transduce.errors import InputError
    from transduce.models.folder import CONFIG
    from transduce.serving.languages import given_pair, learnt_pair

    folders: dict[Pair, Path] = {}
    for argument in models:
        pair, path = given_pair(argument)
        config = Path(path) / CONFIG
        if pair is None and config.is_file():
            pair = learnt_pair(load_config(config))
        if not config.is_file():
            raise InputError(f"{path} is no model: it has no file {CONFIG}")
        if pair is None:
            raise InputError(f"{path} does not tell its languages: say them, as in en-de={path}")
        if pair in folders:
            raise InputError(f"{folders[pair]} and {path} are both for {pair}: serve one of them")
        folders[pair] = Path(path)
    return folders


def _say_where(address: tuple[str, int], pairs: "list[Pair]", *, is_open: bool) -> None:
    import ipaddress

    host, port = address[:2]
    shown = f"[{host}]" if ":" in host else host
    typer.echo(
        f"serving {', '.join(map(str, pairs))} at http://{shown}:{port} (Ctrl-C stops)", err=True
    )
    if is_open and not ipaddress.ip_address(host).is_loopback:
        typer.echo("whoever reaches this address may use it: --keys closes it", err=True)
