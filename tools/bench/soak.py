"""Clients of all sorts at one server for some minutes: unexpected answers, and memory.

    python tools/bench/soak.py MODEL [--minutes 5] [--clients 8] [--record RECORD.csv --name NAME]

Each client asks at random: likelihoods, texts, streams, several choices, requests without sense, unknown
paths, bodies that break off, and answers that nobody reads. Everything but what a request deserves is
an unexpected answer. Ends with 1 if there was one, if the server did not end in order, or if its resident
set grew by more than --allowance after the first fifth of the time. Only this machine is talked to.
"""

import argparse
import collections
import http.client
import json
import random
import signal
import socket
import subprocess
import sys
import threading
import time

import record

COMPLETIONS = "/v1/completions"
JSON = {"Content-Type": "application/json"}


class Client(threading.Thread):
    """One client, with random numbers of its own."""

    def __init__(self, seed, port, vocab, until):
        super().__init__(daemon=True)
        self.rng, self.port, self.vocab, self.until = random.Random(seed), port, vocab, until
        self.counts, self.unexpected = collections.Counter(), []
        self.connection = None

    def run(self):
        kinds = [self.score, self.write, self.stream, self.choices, self.nonsense, self.unknown, self.broken_off,
                 self.unread, self.unread_stream]
        while time.monotonic() < self.until:
            kind = self.rng.choices(kinds, [6, 4, 3, 1, 3, 1, 1, 1, 1])[0]
            try:
                kind()
                self.counts[kind.__name__] += 1
            except Exception as error:  # noqa: BLE001 - whatever it is, it was not expected
                self.unexpected.append(f"{kind.__name__}: {error!r}")
                self.connection = None

    def tokens(self, most):
        return [self.rng.randrange(self.vocab) for _ in range(self.rng.randint(1, most))]

    def ask(self, body, path=COMPLETIONS, method="POST", status=200):
        """One request over a connection that is kept."""
        self.connection = self.connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        text = body if isinstance(body, str) else json.dumps(body)
        self.connection.request(method, path, text, JSON)
        answer = self.connection.getresponse()
        data = answer.read()
        if answer.will_close:
            self.connection.close()
            self.connection = None
        if answer.status != status:
            raise AssertionError(f"{answer.status}, not {status}: {data[:300]!r}")
        return data

    def score(self):
        prompts = [self.tokens(200) for _ in range(self.rng.randint(1, 4))]
        request = {"prompt": prompts, "max_tokens": self.rng.randint(0, 1), "echo": True, "logprobs": self.rng.randint(0, 20)}
        answer = json.loads(self.ask(request))
        for prompt, choice in zip(prompts, answer["choices"], strict=True):
            numbers = choice["logprobs"]["token_logprobs"]
            assert len(numbers) == len(prompt) + request["max_tokens"], "numbers of tokens"
            assert all(number <= 1e-6 for number in numbers[1:]), "a likelihood above one"

    def write(self):
        count = self.rng.randint(1, 60)
        request = {"prompt": "Mila lives in", "max_tokens": count, "temperature": self.rng.choice([0, 0.7]), "stop": ["\n"]}
        choice = json.loads(self.ask(request))["choices"][0]
        assert choice["finish_reason"] in ("stop", "length"), choice

    def stream(self):
        text = self.ask({"prompt": "Once", "max_tokens": 30, "stream": True}).decode()
        assert text.endswith("data: [DONE]\n\n"), text[-200:]

    def choices(self):
        answer = json.loads(self.ask({"prompt": ["a", "b"], "n": 4, "max_tokens": 20}))
        assert len(answer["choices"]) == 8

    def nonsense(self):
        bodies = ["{", "[]", '{"prompt": 5}', '{"prompt": "a", "max_tokens": -1}', '{"prompt": "a", "beams": 2}',
                  json.dumps({"prompt": [1 << 31]}), json.dumps({"prompt": [0] * 100_000})]
        self.ask(self.rng.choice(bodies), status=400)

    def unknown(self):
        self.ask("", path="/v1/nowhere", method="GET", status=404)
        self.ask("{}", path="/health", status=405)

    def plain(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def head(self, length):
        return f"POST {COMPLETIONS} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n".encode()

    def broken_off(self):
        """Leaves in the middle of a request."""
        whole = self.head(5000) + b'{"prompt": "' + b"x" * 2000
        with self.plain() as plain:
            plain.sendall(whole[: self.rng.randint(0, len(whole))])

    def unread(self):
        """Leaves before the answer."""
        body = json.dumps({"prompt": [self.tokens(300) for _ in range(4)], "max_tokens": 100}).encode()
        with self.plain() as plain:
            plain.sendall(self.head(len(body)) + body)

    def unread_stream(self):
        """Leaves in the middle of the answer."""
        body = json.dumps({"prompt": "Once", "max_tokens": 300, "n": 4, "stream": True}).encode()
        with self.plain() as plain:
            plain.sendall(self.head(len(body)) + body)
            plain.recv(self.rng.randint(1, 2000))


def resident(pid):
    """Resident set now and at most, in MB."""
    with open(f"/proc/{pid}/status") as file:
        fields = dict(line.split(":", 1) for line in file)
    return [int(fields[name].split()[0]) * 1024 / 1e6 for name in ("VmRSS", "VmHWM")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=1024, help="tokens to draw from; the model may have more")
    parser.add_argument("--allowance", type=float, default=64, help="MB that memory may grow once it is warm")
    parser.add_argument("--record")
    parser.add_argument("--name", default="", help="the model in the record")
    parser.add_argument("--linwright", default="target/release/linwright")
    args = parser.parse_args()
    command = [args.linwright, "serve", args.model, "--port", "0", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    port = int(json.loads(server.stdout.readline())["url"].rsplit(":", 1)[1].split("/")[0])
    began, seconds = time.monotonic(), args.minutes * 60
    start = resident(server.pid)[0]
    clients = [Client(seed, port, args.vocab, began + seconds) for seed in range(args.clients)]
    for client in clients:
        client.start()
    time.sleep(seconds / 5)
    warm = resident(server.pid)[0]
    for client in clients:
        client.join(timeout=seconds + 120)
    stuck = sum(client.is_alive() for client in clients)
    end, peak = resident(server.pid)
    server.send_signal(signal.SIGINT)
    code = server.wait(timeout=60)
    counts = sum((client.counts for client in clients), collections.Counter())
    unexpected = [text for client in clients for text in client.unexpected]
    figures = [("requests", "", sum(counts.values())), ("unexpected answers", "", len(unexpected)),
               ("memory at the start", "MB", start), ("memory when warm", "MB", warm),
               ("memory at the end", "MB", end), ("peak memory", "MB", peak)]
    for name, count in sorted(counts.items()):
        print(f"{name}: {count}")
    for name, unit, value in figures:
        print(f"{name}: {value:.1f} {unit}".rstrip())
        if args.record:
            setting = f"{args.clients} clients, {args.minutes:g} min"
            record.append(args.record, "soak of the server", args.name, "linwright", setting, name, unit, [value])
    for text in unexpected[:20]:
        print(f"unexpected: {text}", file=sys.stderr)
    if unexpected or stuck or code != 0:
        sys.exit(f"{len(unexpected)} unexpected answers, {stuck} clients without one, exit code {code}")
    if end - warm > args.allowance:
        sys.exit(f"memory grew by {end - warm:.0f} MB")


if __name__ == "__main__":
    main()
