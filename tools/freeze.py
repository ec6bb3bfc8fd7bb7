"""Shows whether a change of the code changed what the command does.

    python3 tools/freeze.py record [FILE]   what every command of the tests writes now
    python3 tools/freeze.py check [FILE]    runs them again and shows what differs

The tests of the command (`crates/cli/tests`) run every verb small, and the tables of bad input. `record` runs them
twice; what differs between two runs of one build (times, memory, process numbers) is left out. Compared are arguments,
exit codes, messages, both streams, every file written (JSON value by value, text line by line, other files by
sha256), and the names of all tests, none of which may be lost. Folders, commits and ports are masked, and all numbers
that `bench` writes. FILE is `target/freeze.json.gz` where it is
not given: floating-point numbers differ from machine to machine, so it is not kept in the repository.
"""

import difflib
import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEFAULT = ROOT / "target/freeze.json.gz"
# Values longer than this are kept as hashes.
LONGEST = 400
# What stands for a value that differs between two runs of one build.
VOLATILE = None
# Masked in all that is compared: what it finds, what it becomes.
MASKS = [(r"\b[0-9a-f]{7}(-dirty)? \d{4}-\d\d-\d\d\b", "<commit>"), (r"--port \d+", "--port <port>")]


def cargo(*args, **kwargs):
    return subprocess.run(["cargo", *args], cwd=ROOT, check=True, **kwargs)


def test_names():
    """Functions of all tests with how many have the name; modules may move."""
    listed = cargo("test", "--workspace", "--quiet", "--", "--list", "--format", "terse", stdout=subprocess.PIPE)
    names = Counter()
    for line in listed.stdout.decode().splitlines():
        name, _, kind = line.rpartition(": ")
        if kind == "test":
            # A doctest is named by file and line; both move.
            doctest = re.search(r"\.rs - (.*) \(line \d+\)", name)
            names[f"doctest {doctest[1].split('::')[-1]}" if doctest else name.split("::")[-1]] += 1
    return dict(names)


def short(value):
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= LONGEST else "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def leaves(value, path=""):
    """Every value of a JSON tree with its path."""
    if isinstance(value, dict) and value:
        for key, one in value.items():
            yield from leaves(one, f"{path}.{key}")
    elif isinstance(value, list) and value:
        for index, one in enumerate(value):
            yield from leaves(one, f"{path}[{index}]")
    else:
        yield path, short(value)


def text_values(prefix, text):
    """Lines of a text, or values of one that is JSON."""
    try:
        tree = json.loads(text)
    except ValueError:
        tree = None
    if isinstance(tree, (dict, list)):
        # The order of keys counts, too.
        yield prefix + " keys", short(json.dumps([path for path, _ in leaves(tree)]))
        for path, value in leaves(tree):
            yield f"{prefix}{path}", value
        return
    yield prefix, text


def masked(line, entry, commit):
    """A line of a transcript without what depends on where and when it was written."""
    places = [(entry["dir"], "<dir>"), (str(ROOT), "<root>")]
    for place, mask in places:
        line = line.replace(json.dumps(place)[1:-1], mask)
    for pattern, mask in [*MASKS, (rf"\b{commit}(-dirty)?\b", "<commit>")]:
        line = re.sub(pattern, mask, line)
    return line


def without_numbers(value):
    return re.sub(r"\d+(\.\d+)?(e-?\d+)?", "#", value) if isinstance(value, str) else value


def transcript():
    """All values of one run of the tests of the command, by test, command and place."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "LINWRIGHT_TRANSCRIPT": folder}
        cargo("test", "--quiet", "-p", "linwright-cli", "--test", "main", env=environment, stdout=subprocess.DEVNULL)
        head = subprocess.run(["git", "rev-parse", "--short=7", "HEAD"], cwd=ROOT, check=True, stdout=subprocess.PIPE)
        commit = head.stdout.decode().strip()
        values = {}
        for path in sorted(Path(folder).iterdir()):
            seen = Counter()
            for line in path.read_text().splitlines():
                entry = json.loads(masked(line, json.loads(line), commit))
                command = " ".join(entry["args"])
                seen[command] += 1
                place = f"{path.stem} | {short(command)} #{seen[command]} | "
                found = {"code": str(entry["code"])}
                for stream in ("stdout", "stderr"):
                    found.update(text_values(stream, entry[stream]))
                for name, content in entry["files"].items():
                    text = content.get("text")
                    found.update({name: content["sha256"]} if text is None else text_values(name, text))
                if entry["args"][:1] == ["bench"]:
                    found = {key: without_numbers(value) for key, value in found.items()}
                values.update((place + key, value) for key, value in found.items())
        return values


def stable(first, second):
    """A value of which the lines that differ between two runs are volatile."""
    if first == second:
        return first
    one, other = (first or "").split("\n"), (second or "").split("\n")
    if len(one) == 1 or len(one) != len(other):
        return VOLATILE
    return [a if a == b else VOLATILE for a, b in zip(one, other)]


def equal(before, now):
    if before is VOLATILE or before == now:
        return True
    if isinstance(before, str) or now is None:
        return False
    lines = now.split("\n")
    return len(lines) == len(before) and all(a in (VOLATILE, b) for a, b in zip(before, lines))


def difference(before, now):
    before = before.split("\n") if isinstance(before, str) else [line or "<volatile>" for line in before]
    lines = difflib.unified_diff(before, now.split("\n"), "before", "now", "", "", 0, "")
    return "\n".join("  " + line for line in list(lines)[2:])


def record(path):
    first, second = transcript(), transcript()
    values = {key: stable(value, second.get(key)) for key, value in first.items()}
    # A place that only one of the two runs has is no place to compare.
    values.update((key, VOLATILE) for key in second if key not in first)
    path.parent.mkdir(exist_ok=True)
    with gzip.open(path, "wt") as file:
        json.dump({"tests": test_names(), "values": values}, file)
    volatile = sum(value is VOLATILE for value in values.values())
    print(f"{path}: {len(values)} values, {volatile} of which differ from run to run")


def check(path):
    with gzip.open(path, "rt") as file:
        before = json.load(file)
    now, tests = transcript(), test_names()
    differing = []
    for key, value in before["values"].items():
        if not equal(value, now.get(key)):
            differing.append(f"{key}\n{difference(value, now.get(key, 'absent'))}")
    added = [key for key in now if key not in before["values"]]
    lost = [name for name, count in before["tests"].items() if tests.get(name, 0) < count]
    print("\n".join(differing + [f"{key}\n  new: {now[key]}" for key in added]))
    print("\n".join(f"a test is lost: {name}" for name in lost))
    counts = sum(before["tests"].values()), sum(tests.values())
    print(f"{len(differing)} values differ, {len(added)} are new; {counts[0]} tests before, {counts[1]} now")
    return not differing and not added and not lost


def main():
    verb, *rest = sys.argv[1:] or [""]
    path = Path(rest[0]) if rest else DEFAULT
    if verb == "record":
        record(path)
    elif verb == "check":
        sys.exit(0 if check(path) else 1)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
