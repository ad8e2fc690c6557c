"""Receivers of webhooks: real HTTP servers in threads."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Receiver:
    """Answers with `status`, `headers` and `answer`, and keeps what it got."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    answer: bytes = b"thanks"
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""

    @contextmanager
    def listening(self) -> Iterator[Receiver]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append((dict(self.headers), body))
                self.send_response(receiver.status)
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(receiver.answer)

            def log_message(self, *arguments: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_port}/hook"
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


@contextmanager
def raw_receiver(serve: Callable[[socket.socket, threading.Event], None]) -> Iterator[str]:
    """The URL of a server that does with each connection what it is given to do, until `stop` is set."""
    stop = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while not stop.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                serve(connection, stop)

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        stop.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
