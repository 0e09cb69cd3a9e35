"""Joins its stdin and stdout to a socket: the pipes of a server that runs in another process.

python -I -S bridge.py SOCKET
"""

import os
import socket
import sys
import threading


def main() -> None:
    link = socket.socket(socket.AF_UNIX)
    link.connect(sys.argv[1])
    threading.Thread(target=inwards, args=(link,), daemon=True).start()
    while chunk := link.recv(65536):
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()


def inwards(link: socket.socket) -> None:
    while chunk := os.read(0, 65536):
        link.sendall(chunk)
    link.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    main()
