"""One hook call of an agent program, handed to its bridge: `python -I -S hook.py SOCKET [NAME]`.

The call's JSON comes on stdin, what the bridge answers goes to stdout. A bridge that is gone can allow nothing: the
program is told to stop. Standard library only: a program starts this for every tool.
"""

import socket
import sys

GONE = b'{"continue":false,"stopReason":"the driver of this leg is gone","decision":"block",'
GONE += b'"reason":"the driver of this leg is gone"}'


def main(args: list[str]) -> int:
    call = sys.stdin.buffer.read()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as way:
            way.connect(args[0])
            if len(args) > 1:
                way.sendall(args[1].encode() + b"\n")
            else:
                way.sendall(b"\n")
            way.sendall(call)
            way.shutdown(socket.SHUT_WR)
            answer = bytearray()
            while data := way.recv(65536):
                answer += data
    except OSError:
        answer = bytearray(GONE)
    if not answer.endswith(b"\n"):  # a whole answer ends its line; anything else is a bridge that died over it
        answer = bytearray(GONE)
    sys.stdout.buffer.write(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
