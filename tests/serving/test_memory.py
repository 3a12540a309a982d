"""The memory of the real command levels off, however different the requests are."""

import http.client
import json
from pathlib import Path

from tests.serving.test_server import COMMAND, metric, started

MIB = 1 << 20


def test_memory_levels_off_and_a_key_may_have_a_number_sign(folder: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("# of the team\nabc#def  # until May\n")
    command = [*COMMAND, "serve", f"en-de={folder}", "--port", "0", "--keys", str(keys)]
    with started(command) as (_, port):
        connection = http.client.HTTPConnection("127.0.0.1", port)

        def ask(lines: int, key: str = "abc#def") -> int:
            """Translate this many lines at once: each number takes products of other sizes."""
            head = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
            body = json.dumps({"text": "\n".join(["The king sleeps."] * lines), "beam": 1})
            connection.request("POST", "/v1/translate", body, head)
            response = connection.getresponse()
            response.read()
            return response.status

        assert (ask(1), ask(1, "abc")) == (200, 403)
        for lines in range(2, 22):
            assert ask(lines) == 200
        before = metric(port, "process_resident_memory_bytes")
        for lines in range(22, 52):
            assert ask(lines) == 200
        grown = metric(port, "process_resident_memory_bytes") - before
        connection.close()
    assert grown < 60 * MIB, f"{grown / MIB:.0f} MiB"
