"""Validates all task files of an installed lm-evaluation-harness with `linwright validate`.

    LINWRIGHT=target/debug/linwright python tools/parity/harness_validate.py [--out FILE.json]

Files are divided by what they reach, through `include` and `task`: files without any Python `!function`
must be valid, but for a few (`--allowed`), whose reasons are printed; each of the others must be valid, if
all its functions have equivalents, or be refused with the name of a function in the message. Groups are
counted apart. Ends with 1 if one is not. Needs `lm_eval` (0.4.13) and PyYAML, no model and no data.
"""

import argparse
import collections
import concurrent.futures
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys

import yaml

FUNCTION = "!function "
# Files per call of the program, as long as all of them are valid.
TOGETHER = 64


class Loader(yaml.SafeLoader):
    """YAML whose functions stay names."""


Loader.add_constructor("!function", lambda loader, node: FUNCTION + loader.construct_scalar(node))


def fields_of(path):
    """Fields of a file and of those that it includes; none if one is missing."""
    own = yaml.load(path.read_text(), Loader) or {}
    included = own.pop("include", None) or []
    merged = {}
    for name in [included] if isinstance(included, str) else included:
        base = path.parent / name
        if not base.is_file():
            return None
        inner = fields_of(base)
        if inner is None:
            return None
        merged.update(inner)
    return {**merged, **own}


def functions_in(value):
    """Names of the functions in a value."""
    if isinstance(value, str):
        return [value.removeprefix(FUNCTION).strip()] if value.startswith(FUNCTION) else []
    if isinstance(value, dict):
        value = list(value.values())
    return [name for item in value for name in functions_in(item)] if isinstance(value, list) else []


def validated(program, paths):
    """The message of a refusal, or none."""
    done = subprocess.run([program, "validate", *map(str, paths)], capture_output=True, text=True)
    if done.returncode == 0:
        return None
    return done.stderr.strip() or f"ended with {done.returncode}"


def each_validated(program, paths, workers):
    """Messages by path. Files are checked together, and one by one where a call is refused."""
    def check(chunk):
        if len(chunk) > 1 and validated(program, chunk) is None:
            return {path: None for path in chunk}
        if len(chunk) == 1:
            return {chunk[0]: validated(program, chunk)}
        half = len(chunk) // 2
        return {**check(chunk[:half]), **check(chunk[half:])}

    chunks = [paths[start:start + TOGETHER] for start in range(0, len(paths), TOGETHER)]
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        found = {}
        for one in pool.map(check, chunks):
            found.update(one)
        return found


def singly_validated(program, paths, workers):
    """As `each_validated`, for files of which most are refused."""
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        return dict(zip(paths, pool.map(lambda path: validated(program, [path]), paths)))


def reason(message, path):
    """A message without what is of one file."""
    text = message.splitlines()[0].replace(str(path), "FILE")
    text = re.sub(r"^error: ", "", text)
    text = re.sub(r"/\S+/", "", text)
    return re.sub(r"; known are .*", "", text)[:160]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, help="the folder of the task files [default: that of lm_eval]")
    parser.add_argument("--allowed", type=int, default=20, help="files without functions that may be refused")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=pathlib.Path, help="write all refusals")
    args = parser.parse_args()
    program = os.environ.get("LINWRIGHT", "target/debug/linwright")
    root = args.root
    if root is None:
        spec = importlib.util.find_spec("lm_eval")
        if spec is None:
            sys.exit("lm_eval is not installed: pip install 'lm_eval==0.4.13', or give --root")
        root = pathlib.Path(spec.origin).parent / "tasks"
    kinds = collections.defaultdict(dict)
    for path in sorted(root.rglob("*.yaml")):
        fields = fields_of(path)
        functions = functions_in(fields or {})
        if fields is not None and "group" in fields:
            kind = "groups"
        elif functions:
            kind = "with functions"
        else:
            kind = "plain"
        kinds[kind][path] = functions
    plain = each_validated(program, list(kinds["plain"]), args.workers)
    refused = {path: message for path, message in plain.items() if message is not None}
    print(f"without functions: {len(plain)} files, {len(refused)} refused")
    for text, count in collections.Counter(reason(m, p) for p, m in refused.items()).most_common():
        print(f"  {count:5} {text}")
    named = singly_validated(program, list(kinds["with functions"]), args.workers)
    unnamed = {
        path: message for path, message in named.items()
        if message is not None and not any(f"!function {name}" in message for name in kinds["with functions"][path])
    }
    valid = sum(message is None for message in named.values())
    print(f"with functions: {len(named)} files, {valid} valid, {len(named) - valid - len(unnamed)} refused by the "
          f"name of a function, {len(unnamed)} otherwise")
    for text, count in collections.Counter(reason(m, p) for p, m in unnamed.items()).most_common():
        print(f"  {count:5} {text}")
    print(f"groups: {len(kinds['groups'])}")
    if args.out:
        everything = {str(path.relative_to(root)): message for path, message in {**plain, **named}.items() if message}
        args.out.write_text(json.dumps(everything, indent=1) + "\n")
    sys.exit(0 if len(refused) <= args.allowed and not unnamed else 1)


if __name__ == "__main__":
    main()
