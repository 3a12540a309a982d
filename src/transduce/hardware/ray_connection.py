"""The connection to a Ray cluster, found by its address."""

import socket
from importlib.util import find_spec
from typing import Any

from transduce.errors import InputError, how_to_install

CONNECT_S = 10.0


def connect(address: str) -> None:
    """Connect this process to a cluster, unless it is connected already.

    address: "ray" or "auto" for the cluster that runs on this machine, and "ray" starts one if
        there is none; "HOST:PORT" for that of another machine, of which this one must be a node;
        "ray://HOST:PORT" for a Ray Client server.
    """
    if find_spec("ray") is None:
        raise InputError(f"--on {address}: Ray is not installed: {how_to_install('cluster')}")

    import ray

    if ray.is_initialized():
        return
    quiet = {"log_to_driver": False, "logging_level": "error"}
    try:
        if address == "ray":
            try:
                ray.init("auto", **quiet)
            except ConnectionError:  # none runs here
                ray.init("local", include_dashboard=False, **quiet)
            return
        if address != "auto":
            _check_port(address)
        ray.init(address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, OSError) as fault:
        first = next(iter(str(fault).splitlines()), "") or type(fault).__name__
        raise InputError(f"--on {address}: cannot connect to the cluster: {first}") from fault


def living_nodes() -> list[dict[str, Any]]:
    """Return what Ray knows of the nodes that are there now."""
    import ray

    return [node for node in ray.nodes() if node["Alive"]]


def _check_port(address: str) -> None:
    """Raise at once if nothing listens: Ray itself would try for a minute."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise InputError(f"--on {address}: write ray, auto, HOST:PORT or ray://HOST:PORT")
    socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
