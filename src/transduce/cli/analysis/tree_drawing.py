"""The picture of a tree that `transduce translate --draw` writes."""

from pathlib import Path

from transduce.errors import InputError


def check_drawing(path: Path | None, model: Path) -> None:
    """Raise before the work is done if there will be no tree, or no place for its picture."""
    if path is None:
        return
    from transduce.cli.terminal.text_output import check_new_file
    from transduce.models.folder import load_settings

    task = load_settings(model).data.task
    if task != "parsing":
        raise InputError(f"--draw {path}: the model in {model} is for {task}, and writes no trees")
    if path.suffix.lower() != ".svg":
        raise InputError(f"--draw {path}: the picture is an SVG, so name a file that ends in .svg")
    check_new_file(path, option="--draw", ours=b"<svg ")


def draw_tree(path: Path, text: str) -> None:
    """Draw a tree in brackets; raise if it is none."""
    from transduce.cli.terminal.text_output import text_output
    from transduce.trees.brackets import TreeError, parse_brackets
    from transduce.trees.svg import tree_svg

    try:
        picture = tree_svg(parse_brackets(text))
    except TreeError as fault:
        raise InputError(f"--draw {path}: the first line has no tree: {fault}") from fault
    with text_output(path) as write:
        for line in picture.splitlines():
            write(line)
