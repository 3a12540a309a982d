"""A Ray Dataset gets translations: every row its own, whatever the blocks and nodes."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import transduce
from tests.translation.likely import sentences
from transduce.translation.options import Options

pytestmark = [
    pytest.mark.skipif(
        any(importlib.util.find_spec(needed) is None for needed in ("ray", "pyarrow")),
        reason="Ray Data is not installed: the extra 'cluster'",
    ),
    pytest.mark.exhaustive,
]
GREEDY = Options(beam=1)
BEGIN = """
import json, sys
import ray.data
import transduce

address, model, table, out = sys.argv[1:]
ray.init(address, log_to_driver=False)
ray.data.DataContext.get_current().execution_options.preserve_order = True
rows = ray.data.read_parquet(table)
greedy = transduce.Options(beam=1)
"""
TRANSLATE = """
columns = {"text": "de", "title": "title_de"}
rows = rows.repartition(7)
done = transduce.translate_dataset(model, rows, columns, greedy, scores=True, window=5)
done = done.materialize()
done.write_parquet(out)
print(json.dumps(done.take_all()))
"""
MISTAKES = """
def refused(dataset=rows, **changes):
    try:
        transduce.translate_dataset(model, dataset, **{"options": greedy} | changes)
    except transduce.InputError as fault:
        return str(fault)

bad = ray.data.range(9).map(lambda row: {"text": row["id"]})  # its types are not known before
try:
    transduce.translate_dataset(model, bad, options=greedy).take_all()
except Exception as fault:
    late = str(fault)
print(json.dumps({
    "no column txt (did you mean text?)": refused(columns={"txt": "de"}),
    "column number is of type int64": refused(columns={"number": "de"}),
    "there would be two columns number": refused(columns={"text": "number"}),
    "columns='text': name the new column": refused(columns="text"),
    "a list is no Ray Dataset": refused(dataset=["A dog."]),
    "a window of 0 rows": refused(window=0),
    "device cuda: no node of the cluster has a GPU": refused(device="cuda"),
    "cannot load the model: to=fr": refused(to="fr"),
    "InputError: column text is of type int64, but must be text": late,
    "[]": str(transduce.translate_dataset(model, ray.data.from_items([])).take_all()),
}))
"""


def told(script: str, cluster: Any, model: Path, folder: Path) -> Any:
    """Run a script on a cluster; return what it prints last."""
    names = [cluster.address, *map(str, (model, folder / "rows.parquet", folder / "out"))]
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + script, *names], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def columns(tmp_path: Path) -> dict[str, list[Any]]:
    """The columns of a Parquet file; some rows have no text."""
    import pyarrow
    import pyarrow.parquet

    texts = [None if n % 5 == 4 else text for n, text in enumerate(sentences(40))]
    found = {"number": [*range(40)], "text": texts, "title": ["A dog.", ""] * 20}
    pyarrow.parquet.write_table(pyarrow.table(found), tmp_path / "rows.parquet")
    return found


@pytest.mark.parametrize("nodes", [[1], [2, 2]])  # cores: a single one has room for reading too
def test_every_row_has_its_translation(
    cluster: Any, model: Path, tmp_path: Path, columns: dict[str, list[Any]], nodes: list[int]
) -> None:
    import pyarrow.parquet

    for cores in nodes:
        cluster.add_node(num_cpus=cores)
    cluster.wait_for_nodes()
    rows = told(TRANSLATE, cluster, model, tmp_path)
    held = {name: [row[name] for row in rows] for name in rows[0]}
    translator = transduce.load(model, "cpu")
    for name, new in (("text", "de"), ("title", "title_de")):
        some = translator.translate([text or "" for text in columns[name]], GREEDY)
        pairs = [*zip(columns[name], some, strict=True)]
        columns[new] = [None if text is None else one.text for text, one in pairs]
        scores = [None if text is None else one.score for text, one in pairs]
        assert held.pop(f"{new}_score") == pytest.approx(scores)
    assert held == columns, "in the order of the rows"
    written = pyarrow.parquet.read_table(tmp_path / "out").sort_by("number").to_pydict()
    assert {name: written[name] for name in columns} == columns


@pytest.mark.usefixtures("columns")
def test_mistakes_are_named_and_nothing_is_nothing(
    cluster: Any, model: Path, tmp_path: Path
) -> None:
    cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    said = told(MISTAKES, cluster, model, tmp_path)
    assert {expected: said[expected] for expected in said if expected not in said[expected]} == {}
