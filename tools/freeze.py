"""Shows whether a change of the code changed what the command does.

    python3 tools/freeze.py record [FILE]             what every command of the tests writes now
    python3 tools/freeze.py check [FILE]              runs them again and shows what differs
    python3 tools/freeze.py compare [FILE [FILE]]     compares two recordings, without running anything

The tests of the command (`crates/cli/tests`) run every verb small, and the tables of bad input. `record` runs them
twice; what differs between two runs of one build (times, memory, process numbers) is left out. Compared are arguments,
exit codes, messages, both streams, every file written (JSON value by value, safetensors tensor by tensor, text line by
line, other files by sha256), and the names of all tests and crates, none of which may be lost. Folders, commits and
ports are masked, and all numbers that `bench` writes. FILE is `target/freeze.json.gz` where it is not given:
floating-point numbers differ from machine to machine, so it is not kept in the repository. `check` keeps what it
found in `target/freeze-now.json.gz`, the second file of `compare`.

Old and new names of options, keys, files, tests and crates are those of `crates/linwright/renamed.json` (or of
`--names FILE`), which tools/renaming.py describes. What the file held when the recording was made is history; an entry
that came after it and matches nothing is an error.

With `--numbers`, other words, another order of keys and values that were not there before are no failure: texts must
have the same numbers in the same order, and help and schemas of options may differ. They are listed in
`target/freeze-words.txt`, to be read. Failures that are too many to
print are in `target/freeze-failures.txt`, and counted by what they have in common.
"""

import argparse
import difflib
import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from renaming import Names, canonical, many, path_of  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
DEFAULT = ROOT / "target/freeze.json.gz"
NOW = ROOT / "target/freeze-now.json.gz"
FAILURES = ROOT / "target/freeze-failures.txt"
WORDS = ROOT / "target/freeze-words.txt"
NAMES = ROOT / "crates/linwright/renamed.json"
# Its tests run every verb.
COMMAND = ROOT / "crates/cli"
# Of the format of recordings.
VERSION = 2
# Strings in JSON longer than this are kept as hashes.
LONGEST = 4000
# Differences that are printed.
SHOWN = 60
# What stands for a value that differs between two runs of one build.
VOLATILE = None
# Masked in all that is compared: what it finds, what it becomes.
MASKS = [(r"\b[0-9a-f]{7}(-dirty)? \d{4}-\d\d-\d\d\b", "<commit>"), (r"--port \d+", "--port <port>")]
# Between the name of a stream or file and the path of a JSON value in it.
TAB = "\t"
# Arguments whose output is about names.
HELP = {"-h", "--help", "help", "man", "completions", "--print-schema", "--print-reference"}
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+(?:[.,]\d+)*)(?:e[-+]?\d+)?(?![\w])", re.IGNORECASE)


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


def crate_names():
    listed = cargo("metadata", "--no-deps", "--format-version", "1", stdout=subprocess.PIPE)
    return sorted(package["name"] for package in json.loads(listed.stdout)["packages"])


def program():
    """The tests of the command. All crates at once, so that nothing is built again for other features."""
    built = cargo("test", "--workspace", "--quiet", "--test", "main", "--no-run", "--message-format", "json", stdout=subprocess.PIPE)
    messages = [json.loads(line) for line in built.stdout.decode().splitlines()]
    (found,) = (
        message["executable"]
        for message in messages
        if message.get("executable") and message["profile"]["test"] and Path(message["manifest_path"]).parent == COMMAND
    )
    return found


def short(value):
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= LONGEST else "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def tree_of(text):
    """The JSON of a text: a value, or one for each line."""
    try:
        tree = json.loads(text)
    except ValueError:
        try:
            tree = [json.loads(line) for line in text.splitlines()]
        except ValueError:
            return None
        if not all(isinstance(one, (dict, list)) for one in tree):
            return None
    return tree if isinstance(tree, (dict, list)) and tree else None


def leaves(value, path=()):
    """Every value of a JSON tree with its path, also of JSON in strings."""
    inner = tree_of(value) if isinstance(value, str) and value[:1] in ("{", "[") else None
    if inner is not None:
        yield from leaves(inner, path)
    elif isinstance(value, dict) and value:
        for key, one in value.items():
            yield from leaves(one, (*path, key))
    elif isinstance(value, list) and value:
        for index, one in enumerate(value):
            yield from leaves(one, (*path, index))
    else:
        yield path_of(path), short(value)


def values_of(place, content):
    """Values of a text or a tree, in order."""
    tree = tree_of(content) if isinstance(content, str) else content
    if tree is None:
        return {place: content}
    return {f"{place}{TAB}{path}": value for path, value in leaves(tree)}


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
    """Arguments and values of all commands of one run of the tests, by test."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "LINWRIGHT_TRANSCRIPT": folder}
        subprocess.run([program(), "--quiet"], cwd=COMMAND, check=True, env=environment, stdout=subprocess.DEVNULL)
        head = subprocess.run(["git", "rev-parse", "--short=7", "HEAD"], cwd=ROOT, check=True, stdout=subprocess.PIPE)
        commit = head.stdout.decode().strip()
        runs = {}
        for path in sorted(Path(folder).iterdir()):
            of_test = runs.setdefault(path.stem, [])
            for line in path.read_text().splitlines():
                entry = json.loads(masked(line, json.loads(line), commit))
                values = {"code": str(entry["code"])}
                for stream in ("stdout", "stderr"):
                    values.update(values_of(stream, entry[stream]))
                for name, content in entry["files"].items():
                    values.update(values_of(name, next(iter(content.values()))))
                if entry["args"][:1] == ["bench"]:
                    values = {key: without_numbers(value) for key, value in values.items()}
                of_test.append({"args": entry["args"], "values": values})
        return runs


def numbered(runs):
    """Runs of one test by command and which of the same command it is."""
    seen, found = Counter(), {}
    for run in runs:
        command = canonical(run["args"])
        seen[command] += 1
        found[command, seen[command]] = run
    return found


def stable(first, second):
    """A value of which the lines that differ between two runs are volatile."""
    if first == second:
        return first
    one, other = (first or "").split("\n"), (second or "").split("\n")
    if len(one) == 1 or len(one) != len(other):
        return VOLATILE
    return [a if a == b else VOLATILE for a, b in zip(one, other)]


def settled(first, second):
    """One run of all tests, with what another run has otherwise as volatile."""
    for test, runs in first.items():
        others = numbered(second.get(test, []))
        for key, run in numbered(runs).items():
            other = others.get(key, {"values": {}})["values"]
            values = {place: stable(value, other.get(place)) for place, value in run["values"].items()}
            # A place that only one of the two runs has is no place to compare.
            values.update((place, VOLATILE) for place in other if place not in values)
            run["values"] = values
    return first


class Report:
    """What differs, by kind: numbers and names fail always, words where they are asked for."""

    def __init__(self):
        self.failures, self.words = [], []
        self.counts = Counter()

    def fail(self, kind, text):
        self.counts[kind] += 1
        self.failures.append(f"{kind}: {text}")

    def word(self, kind, text):
        self.counts[kind] += 1
        self.words.append(f"{kind}: {text}")


def lines_of(value):
    return value.split("\n") if isinstance(value, str) else value


def equal(before, now):
    """Whether a value is as before, but for volatile lines."""
    if before is VOLATILE or before == now:
        return True
    if isinstance(before, str) or not isinstance(now, str):
        return False
    lines = now.split("\n")
    return len(lines) == len(before) and all(a in (VOLATILE, b) for a, b in zip(before, lines))


def numbers_of(place, value):
    """Numbers of a text in order; the text alone of a page."""
    text = "\n".join(line or "" for line in lines_of(value))
    if place.endswith(".html"):
        text = re.sub(r"<(style|script)\b.*?</\1>|<[^>]*>", " ", text, flags=re.DOTALL)
    return [number.lstrip("+") for number in NUMBER.findall(text)]


def same_numbers(place, before, now):
    """Whether a value has the numbers that it had, in other words."""
    if TAB in place and (is_plain(before) or is_plain(now)):
        return False
    old, new = numbers_of(place, before), numbers_of(place, now)
    if isinstance(before, str):
        return old == new
    # Numbers of lines that differ from run to run stand between those that do not.
    rest = iter(new)
    return all(number in rest for number in old)


def is_plain(value):
    """Whether a JSON value is no text: a number, true, false, null or empty, or a checksum."""
    return re.fullmatch(r"-?\d.*|true|false|null|\{\}|\[\]|NaN|-?Infinity|(sha256:)?[0-9a-f]{64}", value) is not None


def difference(before, now):
    before = [line if line is not None else "<volatile>" for line in lines_of(before)]
    lines = difflib.unified_diff(before, now.split("\n"), "before", "now", "", "", 0, "")
    return "\n".join("  " + line for line in list(lines)[2:])


class Comparison:
    """Two recordings under a file of names."""

    def __init__(self, before, now, names):
        self.before, self.now, self.names = before, now, names
        self.report = Report()

    def all(self):
        self.crates()
        self.tests()
        self.commands()
        for entry in self.names.stale():
            self.report.fail("stale name", entry)
        return self.report

    def crates(self):
        renamed = self.names.tree["crates"]
        for old, new in renamed.items():
            if old in self.before["crates"] and old not in self.now["crates"]:
                self.names.used.add(("crates", old))
            for name in many(new):
                if name not in self.now["crates"]:
                    self.report.fail("crate", f"{old} became {name}, which is not there")
        for name in self.before["crates"]:
            if name not in self.now["crates"] and name not in renamed:
                self.report.fail("crate", f"{name} is lost")

    def tests(self):
        renamed = {old.split(".")[-1]: new for old, new in self.names.tree["tests"].items()}
        before, now = self.before["tests"], self.now["tests"]
        for old, new in self.names.tree["tests"].items():
            name = old.split(".")[-1]
            if now.get(name, 0) < before.get(name, 0):
                self.names.used.add(("tests", old))
            for one in many(new):
                if one not in now:
                    self.report.fail("test", f"{old} became {one}, which is not there")
        for name, count in before.items():
            if now.get(name, 0) < count and name not in renamed:
                self.report.fail("test", f"{name} is lost")

    def targets(self, test):
        """Tests that have the commands of an old one."""
        renamed = self.names.tree["tests"]
        bare = test.split(".")[-1]
        new = renamed.get(test, renamed.get(bare))
        if new is None and test in self.now["runs"]:
            return [test]
        wanted = [bare] if new is None else many(new)
        return [name for name in self.now["runs"] if name.split(".")[-1] in wanted]

    def commands(self):
        targets = {test: self.targets(test) for test in self.before["runs"]}
        shared = Counter(name for names in targets.values() for name in names)
        served = set()
        for test, runs in self.before["runs"].items():
            alone = len(targets[test]) == 1 and shared[targets[test][0]] == 1
            pool = [run for name in targets[test] for run in self.now["runs"][name]]
            if not pool:
                self.report.fail("commands", f"{test}: no test has its {len(runs)} commands now")
                continue
            found = numbered(pool)
            by_command = defaultdict(list)
            for (command, _), run in found.items():
                by_command[command].append(run)
            renamed = [{"args": self.names.command(run["args"]), "old": run} for run in runs]
            for (command, number), run in numbered(renamed).items():
                if alone:
                    candidates = [found[command, number]] if (command, number) in found else []
                else:
                    candidates = by_command[command]
                if not candidates:
                    shown = " ".join(run["old"]["args"])
                    became = " ".join(run["args"])
                    note = "" if became == shown else f"\n  which is now: {became}"
                    self.report.fail("command", f"{test} does not run any more: {shown}{note}")
                    continue
                self.best(test, run["old"], candidates, pool, alone)
                served.update(id(one) for one in candidates)
        for test, runs in self.now["runs"].items():
            self.report.counts["new commands"] += sum(id(run) not in served for run in runs)

    def best(self, test, old, candidates, pool, alone):
        """Reports how a command differs from the candidate that is most like it."""
        least = None
        for run in candidates:
            found = self.differences(old, run, pool, alone)
            weight = [sum(kind not in ("words", "new") for kind, _ in found), len(found)]
            if least is None or weight < least[0]:
                least = (weight, found)
            if not found:
                break
        command = f"{test} | {' '.join(old['args'])} | "
        for kind, text in least[1]:
            add = self.report.word if kind in ("words", "order", "new") else self.report.fail
            add(kind, command + text)

    def differences(self, old, run, pool, alone):
        """What differs between a command then and now, as kinds and texts."""
        args, values = old["args"], run["values"]
        # Files that an earlier command of a merged test wrote are not in this one again.
        found, met, order = [], set(), []
        for place, before in old["values"].items():
            new, derived = self.renamed(args, place, values)
            if new is None:
                self.report.counts["values gone by name"] += 1
                continue
            met.add(new)
            if before is VOLATILE:
                continue
            holders = [values] if alone else [values, *(one["values"] for one in pool)]
            expected = self.translated(args, before)
            held = [one[new] for one in holders if one.get(new) is not None]
            shown = place.replace(TAB, " ")
            if not held:
                found.append(("words" if HELP & set(args) else "lost", f"{shown}\n  was: {self.excerpt(before)}"))
            elif not derived and not any(equal(expected, now) for now in held):
                words = bool(HELP & set(args)) or any(same_numbers(place, expected, now) for now in held)
                kind = "words" if words else "number"
                found.append((kind, f"{shown}\n{difference(expected, held[0])}"))
            if new in values:
                order.append(new)
        streams = {place.partition(TAB)[0] for place in met}
        for place in values:
            stream, _, path = place.partition(TAB)
            # A file that another command of a merged test wrote otherwise is compared there.
            if place in met or not (alone or stream in streams):
                continue
            if not (path and self.names.is_added(run["args"], path)):
                found.append(("new", f"{place.replace(TAB, ' ')}\n  is: {self.excerpt(values[place])}"))
        if alone:
            wanted = set(order)
            if [place for place in values if place in wanted] != list(dict.fromkeys(order)):
                found.append(("order", "keys stand in another order"))
        return found

    def renamed(self, args, place, values):
        """The place in new names and whether its value follows from names."""
        stream, tab, path = place.partition(TAB)
        stream = self.names.file(stream)
        if not tab:
            return stream, False
        new = self.names.path(args, path)
        if new is None:
            return None, False
        derived = self.names.is_derived(args, new)
        options = self.names.by_options(args, new)
        if stream + tab + new not in values and stream + tab + options in values:
            new = options
        return stream + tab + new, derived

    def translated(self, args, value):
        if isinstance(value, str):
            return self.names.text(args, value)
        return [line if line is VOLATILE else self.names.text(args, line) for line in value]

    @staticmethod
    def excerpt(value):
        text = "\n".join(line if line is not None else "<volatile>" for line in lines_of(value or ""))
        return text if len(text) <= 200 else text[:200] + " ..."


def read(path):
    with gzip.open(path, "rt") as file:
        recording = json.load(file)
    if recording.get("version") != VERSION:
        sys.exit(f"{path}: version {recording.get('version')} of recordings, expected {VERSION}: record it again")
    return recording


def write(path, recording):
    path.parent.mkdir(exist_ok=True)
    with gzip.open(path, "wt") as file:
        json.dump(recording, file)


def tree_of_names(path):
    return json.loads(path.read_text()) if path.exists() else {}


def recorded(runs, names):
    return {"version": VERSION, "names": names, "crates": crate_names(), "tests": test_names(), "runs": runs}


def record(path, names):
    write(path, recorded(settled(transcript(), transcript()), names))
    values = [value for runs in read(path)["runs"].values() for run in runs for value in run["values"].values()]
    print(f"{path}: {len(values)} values, {sum(value is VOLATILE for value in values)} of which differ from run to run")


def write_lines(path, lines):
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def kind_of(failure):
    """What a failure has in common with others: its kind, verb and place without indices."""
    first = failure.split("\n")[0]
    kind, parts = first.partition(": ")[0], first.split(" | ")
    if len(parts) < 3:
        return kind
    place = re.sub(r"\[[0-9]+\]", "[]", parts[-1])
    return f"{kind}: {parts[1].split(' ')[0]} {place}"


def compare(before, now, tree, numbers):
    """Reports what differs between two recordings; whether nothing does."""
    names = Names(tree, before["names"])
    report = Comparison(before, now, names).all()
    failures = report.failures + ([] if numbers else report.words)
    print("\n".join(failures[:SHOWN]))
    if len(failures) > SHOWN:
        print(f"... and {len(failures) - SHOWN} more in {write_lines(FAILURES, failures)}, most of them:")
        for alike, count in Counter(map(kind_of, failures)).most_common(SHOWN):
            print(f"{count:6} {alike}")
    if numbers and report.words:
        print(f"{len(report.words)} other words: {write_lines(WORDS, report.words)}")
    counts = ", ".join(f"{kind} {count}" for kind, count in sorted(report.counts.items()) if count)
    tests = sum(before["tests"].values()), sum(now["tests"].values())
    print(f"{len(failures)} failures ({counts or 'nothing differs'}); {tests[0]} tests before, {tests[1]} now")
    return not failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("record", "check", "compare"))
    parser.add_argument("file", nargs="*", type=Path)
    parser.add_argument("--names", type=Path, default=NAMES)
    parser.add_argument("--numbers", action="store_true")
    options = parser.parse_intermixed_args()
    if len(options.file) > (2 if options.verb == "compare" else 1):
        parser.error("too many files")
    path, now = [*options.file, *(DEFAULT, NOW)[len(options.file) :]]
    tree = tree_of_names(options.names)
    if options.verb == "record":
        record(path, tree)
        return
    before = read(path)
    if options.verb == "check":
        Names(tree, before["names"])
        write(now, recorded(transcript(), tree))
    sys.exit(0 if compare(before, read(now), tree, options.numbers) else 1)


if __name__ == "__main__":
    main()
