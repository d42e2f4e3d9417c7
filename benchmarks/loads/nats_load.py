"""A load generator of NATS JetStream: publishes with an answer for each, or pulls with an acknowledgement for each.

``python -m benchmarks.loads.nats_load --pid PID --port PORT --queue NAME --count N --size B [--consume]``. At most
1,000 publishes are without an answer. The stream is on disk and forgets what is acknowledged, as a queue does.
``--time`` ends publishing when the server is slow. Prints the figures as JSON.
"""

from __future__ import annotations

import json
import re
import socket

import click

from benchmarks.loads.figures import Counter, Run

READ_BYTES = 1 << 20
WINDOW = 1000
BATCH_MIN = 100
PULLED = 1000
SECONDS_MAX = 20.0
ANSWER = b'"seq":'
API_INBOX, ANSWER_INBOX, MESSAGE_INBOX = b"_I.r", b"_I.a", b"_I.m"
MESSAGE = re.compile(rb"MSG \S+ 3 (\S+) (\d+)\r\n")


class JetStream:
    """One connection, with a stream and a durable consumer of it."""

    def __init__(self, port: int, name: str) -> None:
        self.name = name
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(SECONDS_MAX)
        self.read()  # INFO
        greeting = b'CONNECT {"verbose":false,"headers":true}\r\n'
        for number, inbox in enumerate((ANSWER_INBOX, API_INBOX, MESSAGE_INBOX), 1):
            greeting += b"SUB %s %d\r\n" % (inbox, number)
        self.socket.sendall(greeting)
        stream = {"name": name, "subjects": [name], "storage": "file", "retention": "workqueue"}
        self.ask(f"STREAM.CREATE.{name}", stream)
        consumer = {"durable_name": "C", "ack_policy": "explicit", "max_ack_pending": 10 * WINDOW}
        self.ask(f"CONSUMER.DURABLE.CREATE.{name}.C", {"stream_name": name, "config": consumer})

    def read(self) -> bytes:
        """Return what has come. Raises ClickException at the end of the connection."""
        try:
            octets = self.socket.recv(READ_BYTES)
        except OSError as error:
            raise click.ClickException(f"NATS did not answer: {error}") from error
        if not octets:
            raise click.ClickException("NATS closed the connection")
        return octets

    def ask(self, call: str, argument: object) -> None:
        """Call the JetStream API. Raises ClickException with an error's text."""
        body = json.dumps(argument).encode()
        self.socket.sendall(b"PUB $JS.API.%s %s %d\r\n%s\r\n" % (call.encode(), API_INBOX, len(body), body))
        answer = b""
        while API_INBOX not in answer or not answer.endswith(b"}\r\n"):
            answer += self.read()
        if b'"error"' in answer:
            raise click.ClickException(f"NATS refuses {call}: {answer.decode(errors='replace')}")

    def publish(self, count: int, size: int, measured: Run, seconds: float) -> int:
        """Publish with answers; return how many were answered, fewer than ``count`` when the time is over."""
        one = b"PUB %s %s %d\r\n%s\r\n" % (self.name.encode(), ANSWER_INBOX, size, b"x" * size)
        sent, answers, latest = 0, Counter(ANSWER), count
        while answers.count < latest:
            if measured.seconds > seconds:
                latest = sent  # those that are on their way
            room = min(WINDOW - (sent - answers.count), latest - sent)
            if room >= BATCH_MIN or room == latest - sent > 0:
                self.socket.sendall(one * room)
                sent += room
            if answers.count < sent:
                answers.feed(self.read())
        return answers.count

    def consume(self, count: int) -> int:
        """Pull messages and acknowledge each; return how many came."""
        request = json.dumps({"batch": PULLED, "expires": int(SECONDS_MAX * 1e9)}).encode()
        call = b"PUB $JS.API.CONSUMER.MSG.NEXT.%s.C %s %d\r\n" % (self.name.encode(), MESSAGE_INBOX, len(request))
        pull = call + request + b"\r\n"
        got, asked, rest = 0, 2 * PULLED, b""
        self.socket.sendall(pull * 2)
        while got < count:
            octets = rest + self.read()
            place, answers = 0, []
            while (head := MESSAGE.search(octets, place)) and head.end() + int(head[2]) + 2 <= len(octets):
                place = head.end() + int(head[2]) + 2
                answers.append(b"PUB %s 4\r\n+ACK\r\n" % head[1])
            got += len(answers)
            rest = octets[place:]
            if asked - got < PULLED and asked < count:
                answers.append(pull)
                asked += PULLED
            self.socket.sendall(b"".join(answers))
        return got


@click.command()
@click.option("--pid", "process_id", type=int, required=True, help="The server's process.")
@click.option("--port", type=int, required=True)
@click.option("--queue", required=True, help="Name of the stream and its subject.")
@click.option("--count", type=click.IntRange(1), required=True)
@click.option("--size", type=click.IntRange(1), default=1024, show_default=True)
@click.option("--consume", is_flag=True, help="Measure consuming what was published before.")
@click.option("--time", "seconds", type=float, default=60.0, show_default=True, help="Of publishing, at most.")
def main(process_id: int, port: int, queue: str, count: int, size: int, consume: bool, seconds: float) -> None:
    """Publish or consume, and print the figures."""
    stream = JetStream(port, queue)
    measured = Run(process_id)
    sent = stream.publish(count, size, measured, seconds)
    if not consume:
        figures = measured.figures(sent=sent, received=0, sent_after=measured.seconds, received_after=0.0)
    else:
        measured = Run(process_id)
        got = stream.consume(sent)
        figures = measured.figures(sent=0, received=got, sent_after=0.0, received_after=measured.seconds)
    stream.ask(f"STREAM.DELETE.{queue}", {})
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
