"""Tasks as other packages install them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from transduce.tasks import registry

ENTRY_POINTS = """\
[transduce.tasks]
backwards = tests.tasks.toy:Backwards
misnamed = tests.tasks.toy:Misnamed
metric = tests.tasks.toy:NOT_A_TASK
translation = tests.tasks.toy:Backwards
"""


@pytest.fixture
def installed_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a distribution with the tasks of `tests.tasks.toy` until the test ends."""
    metadata = tmp_path / "site-packages" / "toy_tasks-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-tasks\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(metadata.parent))
    registry._installed.cache_clear()
    yield
    monkeypatch.undo()
    registry._installed.cache_clear()
