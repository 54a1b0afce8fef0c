"""Servers that tests start for themselves on loopback: ports for them, and waiting until they answer."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path


def free_ports(count: int) -> list[int]:
    """Different ports that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path, seconds: float) -> None:
    """Wait until a server answers.

    Args:
        port: Where it listens.
        process: The server.
        log: What it wrote; the error quotes its end.
        seconds: How long to wait.

    Raises:
        AssertionError: the server has ended, or does not answer in time.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"No answer on port {port}: {log.read_text(encoding='utf-8')[-3000:]}")
