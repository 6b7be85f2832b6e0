"""TLS in front of a server that has none: each connection is decrypted and passed on. For tests of `rediss://`."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def tls_front(port: int, certificate: Path, key: Path) -> Generator[int]:
    """The port of a TLS listener for the server on `port`, until the block ends."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener, context, port), daemon=True).start()
        yield listener.getsockname()[1]
        # Closing alone leaves a thread in `accept`.
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, context: ssl.SSLContext, port: int) -> None:
    with contextlib.suppress(OSError):
        while True:
            accepted, _ = listener.accept()
            threading.Thread(target=_serve, args=(accepted, context, port), daemon=True).start()


def _serve(accepted: socket.socket, context: ssl.SSLContext, port: int) -> None:
    with (
        contextlib.suppress(OSError),
        context.wrap_socket(accepted, server_side=True) as outside,
        socket.create_connection(("127.0.0.1", port)) as inside,
    ):
        threading.Thread(target=_pass_on, args=(inside, outside), daemon=True).start()
        _pass_on(outside, inside)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_RDWR)
