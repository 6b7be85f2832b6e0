"""A way to a server on which replies are changed, to others of the same length: for what no server here would say."""

import contextlib
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def lying_front(port: int, truth: bytes, lie: bytes) -> Generator[int]:
    """The port of a listener in front of the server on `port`, until the block ends."""
    assert len(truth) == len(lie), "a RESP reply says how long it is"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener, port, truth, lie), daemon=True).start()
        yield listener.getsockname()[1]
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, port: int, truth: bytes, lie: bytes) -> None:
    with contextlib.suppress(OSError):
        while True:
            outside, _ = listener.accept()
            inside = socket.create_connection(("127.0.0.1", port))
            threading.Thread(target=_pass_on, args=(outside, inside, b"", b""), daemon=True).start()
            threading.Thread(target=_pass_on, args=(inside, outside, truth, lie), daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket, truth: bytes, lie: bytes) -> None:
    with contextlib.suppress(OSError), source, target:
        while data := source.recv(1_000_000):
            target.sendall(data.replace(truth, lie) if truth else data)
        target.shutdown(socket.SHUT_RDWR)
