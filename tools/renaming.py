"""Old and new names, of `crates/linwright/renamed.json`, for tools/freeze.py.

The command line answers old options from the same file. One object, all parts optional:

    "options":  {"VERB --old": "--new", "--old": "--new"}, a verb's own entry before that of all verbs.
                "--new:key" is a key of the argument of --new (`--epochs 16` is `--method NAME:epochs=16`),
                "--new:key=value" the same for a switch, "--new=value" a value for a switch, null is gone.
                "--new::key" is a key of an argument without a name (`--window 9` is `--new window=9`).
    "commands": [[old arguments], [new arguments]] for what is no plain renaming. Each option of the old
                ones is looked for with what follows it; `{name}` is any argument or any part of one.
    "keys":     {"old": "new"} wherever it is a key of a result, or {".best.size": ".best.keep"} from the
                root of a file (`[]` is any index); "VERB " before it for one verb; null is gone.
    "added":    keys that results did not have; "derived": keys that follow from names, such as
                fingerprints, of which only the presence is compared.
    "files":    {"old.json": "new.json"}, names of files that commands write.
    "tests":    {"old": "new", "one": ["two", "three"]}, functions without modules.
    "crates":   {"old": "new", "one": ["two", "three"]}.
"""

import json
import re

PARTS = {
    "options": dict,
    "commands": list,
    "keys": dict,
    "added": list,
    "derived": list,
    "files": dict,
    "tests": dict,
    "crates": dict,
}
SEGMENT = re.compile(r'\.("(?:[^"\\]|\\.)*"|[^.\[]+)|\[(\d*)\]')


class NamesError(ValueError):
    """A file of names that says nothing clear."""


def segments(path):
    """`.best."a.b"[3]` as ["best", "a.b", 3]; `[]` is None."""
    found, at = [], 0
    while at < len(path):
        match = SEGMENT.match(path, at)
        if match is None:
            raise NamesError(f"{path!r} is no path of keys, such as .best.size or .layers[].rank")
        name, index = match.groups()
        if name is None:
            found.append(int(index) if index else None)
        else:
            found.append(json.loads(name) if name.startswith('"') else name)
        at = match.end()
    return found


def path_of(names):
    """The inverse of `segments`."""
    text = ""
    for name in names:
        if not isinstance(name, str):
            text += "[]" if name is None else f"[{name}]"
        elif re.fullmatch(r'[^.\["]+', name):
            text += f".{name}"
        else:
            text += f".{json.dumps(name)}"
    return text


def many(value):
    """Names that one became."""
    return [value] if isinstance(value, str) else list(value)


def starts_with(args, words):
    """Whether the words of a command, without options before them, begin so."""
    plain = [arg for arg in args if not arg.startswith("-")]
    return plain[: len(words)] == words


def is_option(arg):
    return re.match(r"--?[A-Za-z]", arg) is not None


def pieces(args):
    """The leading words of arguments, and each option with what follows it."""
    found = [[]]
    for arg in args:
        if is_option(arg):
            found.append([])
        found[-1].append(arg)
    return found[0], found[1:]


def bind(pattern, arg, bound):
    """Whether an argument is `pattern`, in which `{name}` is anything; fills `bound`."""
    parts = re.split(r"\{(\w+)\}", pattern)
    expression = "".join(f"(?P<{part}>.+)" if odd % 2 else re.escape(part) for odd, part in enumerate(parts))
    match = re.fullmatch(expression, arg)
    if match is None or any(bound.get(name, value) != value for name, value in match.groupdict().items()):
        return False
    bound.update(match.groupdict())
    return True


def canonical(args):
    """A command without the order of its options, and of the keys in their values."""
    found = []
    for arg in args:
        name, equals, value = arg.partition("=")
        found += [name, value] if equals and re.fullmatch(r"--[\w-]+", name) else [arg]
    for at, arg in enumerate(found):
        match = re.fullmatch(r"([\w-]+):([\w-]+(?:=[^,]*)?(?:,[\w-]+(?:=[^,]*)?)*)", arg)
        if match:
            found[at] = match[1] + ":" + ",".join(sorted(match[2].split(",")))
    return tuple(sorted(found))


class Names:
    """The file, and which of its entries were of use."""

    def __init__(self, tree, history=None):
        for part, kind in PARTS.items():
            if not isinstance(tree.get(part, kind()), kind):
                raise NamesError(f"{part!r} is no {kind.__name__}")
        unknown = sorted(set(tree) - set(PARTS))
        if unknown:
            raise NamesError(f"unknown part {unknown[0]!r}; the parts are {', '.join(PARTS)}")
        self.tree = {part: tree.get(part, kind()) for part, kind in PARTS.items()}
        history = history or {}
        # What was in the file when the recording was made has happened before it.
        for part, kind in PARTS.items():
            old = history.get(part, kind())
            if kind is dict:
                self.tree[part] = {k: v for k, v in self.tree[part].items() if k not in old or old[k] != v}
            else:
                self.tree[part] = [entry for entry in self.tree[part] if entry not in old]
        self.used = set()
        self.options = [self._option(key, value) for key, value in self.tree["options"].items()]
        # An entry of a verb goes before one of all.
        self.options.sort(key=lambda entry: -len(entry[0]))
        self.keys = [self._key(entry) for entry in self.tree["keys"].items()]
        self.added = [self._key((entry, None), "added") for entry in self.tree["added"]]
        self.derived = [self._key((entry, None), "derived") for entry in self.tree["derived"]]
        for entry in self.tree["commands"]:
            pair = isinstance(entry, list) and len(entry) == 2
            if not pair or not all(isinstance(side, list) and side for side in entry):
                raise NamesError(f"{entry!r} in 'commands' is no pair of old and new arguments")

    @staticmethod
    def _option(key, value):
        *verb, old = key.split(" ")
        if not old.startswith("--") or not (value is None or value.startswith("--")):
            raise NamesError(f"{key!r}: {value!r} in 'options': expected \"VERB --old\": \"--new\"")
        return verb, old, value, key

    @staticmethod
    def _key(entry, part="keys"):
        text, new = entry
        *verb, name = text.split(" ")
        if name.startswith("."):
            new = segments(new) if new is not None else None
            return verb, segments(name), new, (part, text)
        return verb, name, new, (part, text)

    def command(self, args):
        """Arguments in new names."""
        args = list(args)
        whole = list(args)
        for at, (old, new) in enumerate(self.tree["commands"]):
            replaced = self._replaced(args, old, new)
            if replaced is not None:
                self.used.add(("commands", at))
                args = replaced
                break
        taken, at = {}, 0
        while at < len(args):
            name, equals, value = args[at].partition("=")
            entry = self._entry(whole, name) if is_option(name) else None
            if entry is None:
                at += 1
                continue
            new, key = entry
            self.used.add(("options", key))
            if new is None:
                at += 1
            elif ":" in new:
                option, _, setting = new.partition(":")
                end = at + 1
                if "=" not in setting:
                    setting += "=" + (value if equals else args[at + 1] if end < len(args) else "")
                    end += 0 if equals else 1
                args[at:end] = []
                taken.setdefault(option, []).append(setting)
            elif "=" in new:
                args[at : at + 1] = new.split("=", 1)
                at += 2
            else:
                args[at] = new + equals + value
                at += 1
        for option, settings in taken.items():
            self._set(args, option, settings)
        return args

    def _entry(self, args, name):
        for verb, old, new, key in self.options:
            if old == name and starts_with(args, verb):
                return new, key
        return None

    @staticmethod
    def _set(args, option, settings):
        """Adds keys to the value of an option; one that the command lacks stays without a name."""
        unnamed = settings[0].startswith(":")
        settings = [setting.removeprefix(":") for setting in settings]
        for at, arg in enumerate(args):
            name, equals, _ = arg.partition("=")
            if name == option and (equals or at + 1 < len(args)):
                place = at if equals else at + 1
                args[place] += ("," if unnamed or ":" in args[place] else ":") + ",".join(settings)
                return
        args += [option, ("" if unnamed else ":") + ",".join(settings)]

    @staticmethod
    def _replaced(args, old, new):
        words, options = pieces(old)
        fresh, rest = pieces(new)
        rest = [arg for piece in rest for arg in piece]
        bound, taken = {}, set()
        if not all(at < len(args) and bind(word, args[at], bound) for at, word in enumerate(words)):
            return None
        for piece in options:
            for at in range(len(words), len(args) - len(piece) + 1):
                places = range(at, at + len(piece))
                trial = dict(bound)
                if not taken & set(places) and all(bind(p, args[i], trial) for p, i in zip(piece, places)):
                    bound = trial
                    taken |= set(places)
                    break
            else:
                return None

        def filled(parts):
            return [re.sub(r"\{(\w+)\}", lambda name: bound.get(name[1], name[0]), part) for part in parts]

        first = min(taken, default=len(words))
        found = filled(fresh)
        for at in range(len(words), len(args)):
            if at == first:
                found += filled(rest)
            if at not in taken:
                found.append(args[at])
        return found + (filled(rest) if first >= len(args) else [])

    def path(self, args, path):
        """The path of a key in new names; None where it is gone."""
        names = segments(path)
        for verb, old, new, use in self.keys:
            if not starts_with(args, verb):
                continue
            if isinstance(old, str):
                if old in names:
                    self.used.add(use)
                    if new is None:
                        return None
                    names = [new if name == old else name for name in names]
            elif self._under(old, names):
                self.used.add(use)
                if new is None:
                    return None
                indices = iter([name for name, pattern in zip(names, old) if pattern is None])
                head = [next(indices) if name is None else name for name in new]
                names = head + names[len(old) :]
        return path_of(names)

    def by_options(self, args, path):
        """The path with the keys that are old names of options of the command in new ones."""
        names = segments(path)
        for verb, old, new, _ in self.options:
            if new is not None and re.fullmatch(r"--[\w-]+", new) and starts_with(args, verb):
                key, fresh = (name[2:].replace("-", "_") for name in (old, new))
                names = [fresh if name == key else name for name in names]
        return path_of(names)

    def is_added(self, args, path):
        return self._one_of(self.added, args, path)

    def is_derived(self, args, path):
        return self._one_of(self.derived, args, path)

    def _one_of(self, entries, args, path):
        names = segments(path)
        for verb, old, _, use in entries:
            if starts_with(args, verb) and (old in names if isinstance(old, str) else self._under(old, names)):
                self.used.add(use)
                return True
        return False

    @staticmethod
    def _under(pattern, names):
        return len(names) >= len(pattern) and all(
            isinstance(name, int) if one is None else one == name for one, name in zip(pattern, names)
        )

    def file(self, name):
        """The name of a file that a command wrote."""
        for old, new in self.tree["files"].items():
            if name == old or name.endswith("/" + old):
                self.used.add(("files", old))
                return name[: len(name) - len(old)] + new
        return name

    def text(self, args, text):
        """A text that names options, files or crates, in new names."""
        for verb, old, new, _ in self.options:
            if new is not None and ":" not in new and starts_with(args, verb):
                text = re.sub(rf"(?<![\w-]){re.escape(old)}(?![\w-])", new.replace("=", " "), text)
        for old, new in self.tree["files"].items():
            text = re.sub(rf"(?<![\w.-]){re.escape(old)}(?![\w-])", new, text)
        for old, new in self.tree["crates"].items():
            for one, other in ((old, many(new)[0]), (old.replace("-", "_"), many(new)[0].replace("-", "_"))):
                text = re.sub(rf"(?<![\w-]){re.escape(one)}(?![\w-])", other, text)
        return text

    def stale(self):
        """Entries that nothing recorded has."""
        for part in PARTS:
            for at, entry in enumerate(self.tree[part]):
                use = (part, at) if part == "commands" else (part, entry)
                if use not in self.used:
                    yield f"{part}: {json.dumps(entry)} matches nothing"
