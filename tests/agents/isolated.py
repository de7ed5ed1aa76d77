"""Runs a command with no network but loopback, where that can be had: `python -m tests.agents.isolated COMMAND…`.

As root: a network namespace of its own with loopback up, and a resolver on 127.0.0.1 that the tests listen on, so that
every look-up of a name is seen. Else the command runs as it is and says so: the tests then leave that check out.
"""

import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile

INSIDE = "AGENT_TESTS_ISOLATED"
_SIOCSIFFLAGS, _IFF_UP_RUNNING = 0x8914, 0x41


def main(args: list[str]) -> int:
    if args[0] == "--inside":
        _prepare()
        os.environ[INSIDE] = "1"
        os.execvp(args[1], args[1:])
    enter = ["unshare", "--net", "--mount", "--"]
    if os.geteuid() == 0 and shutil.which("unshare"):
        if subprocess.run([*enter, "true"], capture_output=True, check=False).returncode == 0:
            os.execvp(enter[0], [*enter, sys.executable, "-m", "tests.agents.isolated", "--inside", *args])
    sys.stderr.write("no network namespace here: look-ups of names are not watched\n")
    os.execvp(args[0], args)


def _prepare() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP_RUNNING))
    with tempfile.NamedTemporaryFile("w", prefix="resolv-", delete=False) as file:
        file.write("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
    os.chmod(file.name, 0o644)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "--bind", file.name, "/etc/resolv.conf"], check=True)
    os.unlink(file.name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
