#!/usr/bin/env python3
"""Load a service for minutes, disconnect half of the clients, and check every answer.

    python examples/serve/soak.py BUNDLE --seconds 600

It starts a server for the bundle. Clients send sentences one after another. At the end, half of
them close their connections in the middle of a request. An answer that differs from the translation
of the sentence alone is an error, as is a sentence that is still queued when all clients are gone.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import fairseq_fastdec

PORT = 5099
# Seconds until the server has translated all sentences several times.
WARM_UP = 60
# Seconds until the requests of clients that vanished are cancelled.
CANCELLING = 2
PATH = f"http://127.0.0.1:{PORT}"


class Client:
    """A client with a persistent connection."""

    def __init__(self, lines: list[str], expected: list[str], number: int) -> None:
        self._lines, self._expected, self._number = lines, expected, number
        self.n_answers = self.n_wrong = 0

    async def run(self, end: float, vanishes: bool) -> None:
        """Send requests until ``end``; if it vanishes, send one more and close the connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
        place = self._number
        while time.monotonic() < end:
            place = (place + 64) % len(self._lines)
            self._send(writer, self._lines[place])
            head = await reader.readuntil(b"\r\n\r\n")
            fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
            body = json.loads(await reader.readexactly(int(fields[b"content-length"])))
            self.n_answers += 1
            self.n_wrong += body.get("translatedText") != self._expected[place]
        if vanishes:
            self._send(writer, " ".join(self._lines[:50]))
            await writer.drain()
        writer.close()

    def _send(self, writer: asyncio.StreamWriter, text: str) -> None:
        body = json.dumps({"q": text, "source": "en", "target": "de"}).encode()
        head = f"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n"
        writer.write(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)


def main() -> None:
    """Start the server, load it, and print the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle", metavar="BUNDLE")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--input", type=Path, default=Path("examples/en_de/data/test.en"))
    args = parser.parse_args()
    alone = fairseq_fastdec.load(args.bundle)
    # Only lines of one sentence, which the service does not split.
    lines = [line for line in args.input.read_text("utf-8").splitlines() if line[:-1].isascii()]
    lines = [line for line in lines if not set(".!?:;") & set(line[:-1])]
    expected = [alone.translate(line) for line in lines]
    alone.close()
    command = [sys.executable, "-m", "fairseq_fastdec", "serve", args.bundle, "--port", str(PORT)]
    with subprocess.Popen(command) as server:
        try:
            wait_for_server()
            asyncio.run(loaded(WARM_UP, args.clients, lines, expected))
            time.sleep(CANCELLING)
            before = memory(server.pid)
            clients = asyncio.run(loaded(args.seconds, args.clients, lines, expected))
            time.sleep(CANCELLING)
            queued = [line for line in read("/metrics").splitlines() if "_waiting{" in line]
            queued += [line for line in read("/metrics").splitlines() if "_under_way{" in line]
            after = memory(server.pid)
        finally:
            server.terminate()
    n, n_wrong = (sum(counts) for counts in zip(*((c.n_answers, c.n_wrong) for c in clients)))
    print(f"{n} answers, {n / args.seconds:.0f} a second, {n_wrong} wrong; {'; '.join(queued)}")
    print(f"memory {before:.1f} MiB after {WARM_UP} seconds, {after:.1f} MiB in the end")
    print(f"exit code {server.returncode}")


async def loaded(seconds: float, n: int, lines: list[str], expected: list[str]) -> list[Client]:
    """Run clients for a while; half of them vanish at the end."""
    clients = [Client(lines, expected, number) for number in range(n)]
    end = time.monotonic() + seconds
    await asyncio.gather(*(c.run(end, i % 2 == 0) for i, c in enumerate(clients)))
    return clients


def wait_for_server() -> None:
    for _ in range(300):
        try:
            read("/health")
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the server does not answer")


def read(path: str) -> str:
    with urllib.request.urlopen(PATH + path) as answer:
        return answer.read().decode()


def memory(process: int) -> float:
    """The resident memory of a process, in MiB."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


if __name__ == "__main__":
    main()
