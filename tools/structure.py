"""Counts what a refactoring should make less of, before and after it.

    python3 tools/structure.py CHECKOUT [LINWRIGHT]

Lines of product code (without comments, blank lines and tests), circles between files of a crate, `json!`, `_ =>` arms,
parameters that are tuples, test binaries, files `run.rs`; with a built command also the options of all commands and the
lengths of their help. A circle is a strongly connected set of more than one file by `use crate::`, `super::` and paths in
code, with names resolved through re-exports to the file that defines the item. Compare only numbers of this script.
"""

import json, re, subprocess, sys
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(sys.argv[1]).resolve()
BINARY = sys.argv[2] if len(sys.argv) > 2 else None


def strip(text):
    """Text without comments, and string contents blanked (lines kept)."""
    out, i, n = [], 0, len(text)
    while i < n:
        c = text[i]
        if text.startswith("//", i):
            j = text.find("\n", i)
            j = n if j < 0 else j
            i = j
            continue
        if text.startswith("/*", i):
            depth, j = 1, i + 2
            while j < n and depth:
                if text.startswith("/*", j):
                    depth += 1
                    j += 2
                elif text.startswith("*/", j):
                    depth -= 1
                    j += 2
                else:
                    j += 1
            out.append("\n" * text.count("\n", i, j))
            i = j
            continue
        m = (
            re.match(r'b?r(#*)"', text[i : i + 20])
            if c in "rb" and not (out and re.match(r"\w", out[-1][-1:] or " "))
            else None
        )
        if m:
            end = text.find('"' + m[1], i + m.end())
            end = n if end < 0 else end + 1 + len(m[1])
            out.append('"' + "s\n" * text.count("\n", i, end) + '"')
            i = end
            continue
        if c == '"':
            j = i + 1
            while j < n and text[j] != '"':
                j += 2 if text[j] == "\\" else 1
            out.append('"' + "s\n" * text.count("\n", i, j) + '"')
            i = j + 1
            continue
        if c == "'":
            m = re.match(r"'(\\.[^']*|[^\\'])'", text[i : i + 14])
            if m:
                out.append("' '")
                i += m.end()
                continue
        out.append(c)
        i += 1
    return "".join(out)


def no_tests(code):
    """Code without items under #[cfg(test)] (or cfg(all(test..)), #[test])."""
    while True:
        m = re.search(r"#\[cfg\((?:test|all\(test[^\]]*)\)\]|#\[test\]", code)
        if not m:
            return code
        i, depth = m.end(), 0
        while i < len(code):
            c = code[i]
            if c in "([{":
                depth += 1
            elif c in ")]}":
                depth -= 1
                if depth == 0 and c == "}":
                    i += 1
                    break
            elif c == ";" and depth == 0:
                i += 1
                break
            i += 1
        code = code[: m.start()] + code[i:]


def is_test(path):
    return (
        path.stem.startswith("test")
        or path.stem.endswith("_tests")
        or any(p in ("tests", "examples", "benches") for p in path.parts)
    )


crates = sorted(p.parent for p in [*ROOT.glob("crates/*/Cargo.toml"), *ROOT.glob("xtask/Cargo.toml")])
product, tests, per = 0, 0, Counter()
codes = {}
cfg_test_mods = set()
for crate in crates:
    for path in sorted(crate.rglob("*.rs")):
        if "target" in path.parts:
            continue
        code = strip(path.read_text())
        for m in re.finditer(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))? )?mod (\w+);", code):
            base = path.parent if path.stem in ("mod", "lib", "main") else path.parent / path.stem
            cfg_test_mods.add(base / f"{m[1]}.rs")
            cfg_test_mods.add(base / m[1])
        codes[path] = code


def under_test(path):
    return any(path == m or m in path.parents for m in cfg_test_mods)


plain = {}
for path, code in codes.items():
    rel = path.relative_to(ROOT)
    crate = "/".join(rel.parts[:2]) if rel.parts[0] == "crates" else rel.parts[0]
    lines = sum(bool(l.strip()) for l in code.split("\n"))
    if is_test(rel) or under_test(path):
        tests += lines
        continue
    code = no_tests(code)
    plain[path] = code
    own = sum(bool(l.strip()) for l in code.split("\n"))
    product += own
    tests += lines - own
    per[crate] += own
print(f"product lines {product} (without xtask {product - per['xtask']}), test lines {tests}")
print("  " + ", ".join(f"{k.split('/')[-1]} {v}" for k, v in per.most_common()))


# circles
def module_of(crate, path):
    parts = list(path.relative_to(crate / "src").with_suffix("").parts)
    if parts[-1] in ("mod",):
        parts.pop()
    if parts in (["lib"], ["main"]):
        parts = []
    return tuple(parts)


def uses(code):
    """Expanded paths of use items: (path tuple, alias, is_pub)."""
    for m in re.finditer(r"(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", code):

        def expand(prefix, text):
            text = text.strip()
            b = text.find("{")
            if b < 0:
                path, _, alias = text.partition(" as ")
                full = prefix + tuple(x.strip() for x in path.strip().split("::") if x.strip())
                if full and full[-1] == "self":
                    full = full[:-1]
                yield full, (alias.strip() or (full[-1] if full else ""))
                return
            head = tuple(x.strip() for x in text[:b].split("::") if x.strip())
            depth, start, inner = 0, b + 1, text[b + 1 : text.rfind("}")]
            part = ""
            for c in inner:
                if c == "{":
                    depth += 1
                if c == "}":
                    depth -= 1
                if c == "," and depth == 0:
                    if part.strip():
                        yield from expand(prefix + head, part)
                    part = ""
                else:
                    part += c
            if part.strip():
                yield from expand(prefix + head, part)

        for full, alias in expand((), m[2]):
            yield full, alias, bool(m[1])


def scc(graph):
    index, low, stack, on, out = {}, {}, [], set(), []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        on.add(v)
        for w in graph.get(v, ()):
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in on:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            comp = []
            while True:
                w = stack.pop()
                on.discard(w)
                comp.append(w)
                if w == v:
                    break
            if len(comp) > 1:
                out.append(comp)

    for v in list(graph):
        if v not in index:
            visit(v)
    return out


total_circles, where, siblings, strict = 0, [], [], []
for crate in crates:
    src = {
        module_of(crate, p): p
        for p in plain
        if (crate / "src") in p.parents
        and p.name not in ("main.rs", "build.rs")
        or p.name == "main.rs"
        and not (crate / "src/lib.rs").exists()
        and (crate / "src") in p.parents
    }
    mods = set(src)
    imports, items = {}, {}
    for mod, path in src.items():
        code = plain[path]
        imports[mod] = [(f, a, p) for f, a, p in uses(code)]
        items[mod] = set(re.findall(r"\b(?:fn|struct|enum|trait|type|const|static|union|macro_rules!)\s+(\w+)", code))

    def absolute(mod, full):
        if not full:
            return None
        if full[0] == "crate":
            return full[1:]
        if full[0] == "self":
            return mod + full[1:]
        if full[0] == "super":
            cur, rest = mod, full
            while rest and rest[0] == "super":
                cur, rest = cur[:-1], rest[1:]
            return cur + rest
        if mod + full[:1] in mods:
            return mod + full
        return None

    def resolve(path, seen=()):
        """Module file that defines an absolute path."""
        if path in seen:
            return None
        at = path
        while at and at not in mods:
            at = at[:-1]
        if at == path:
            return at
        name = path[len(at)]
        if name in items[at]:
            return at
        for full, alias, _ in imports[at]:
            if alias == name:
                target = absolute(at, full)
                if target is None:
                    return None
                return resolve(target + path[len(at) + 1 :], seen + (path,))
        for full, alias, _ in imports[at]:
            if alias == "*":
                target = absolute(at, full[:-1])
                if target is not None and target in mods and name in items[target]:
                    return target
        return at

    edges = defaultdict(set)
    for mod, path in src.items():
        body = re.sub(r"(pub(?:\([^)]*\))?\s+)?use\s+[^;]+;", "", plain[path])
        targets = set()
        for full, alias, is_pub in imports[mod]:
            # a re-export is no dependency unless used
            if is_pub and not re.search(rf"\b{re.escape(alias)}\b", body):
                continue
            t = absolute(mod, full)
            if t is not None:
                targets.add(t)
        for m in re.finditer(r"\b(?:crate|self|super)(?:::\w+)+", body):
            t = absolute(mod, tuple(m[0].split("::")))
            if t is not None:
                targets.add(t)
        for t in targets:
            r = resolve(t)
            if r is not None and r != mod:
                edges[mod].add(r)
    # Tarjan
    index, low, stack, on, out, count = {}, {}, [], set(), [], [0]
    sys.setrecursionlimit(10000)

    def visit(v):
        index[v] = low[v] = count[0]
        count[0] += 1
        stack.append(v)
        on.add(v)
        for w in edges[v]:
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in on:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            comp = []
            while True:
                w = stack.pop()
                on.discard(w)
                comp.append(w)
                if w == v:
                    break
            if len(comp) > 1:
                out.append(comp)

    for v in list(mods):
        if v not in index:
            visit(v)
    total_circles += len(out)
    apart = {a: {b for b in bs if a[: len(b)] != b and b[: len(a)] != a} for a, bs in edges.items()}
    for comp in scc(apart):
        names = sorted("::".join(c) or "(root)" for c in comp)
        strict.append((len(comp), f"{crate.name}: {', '.join(names[:14])}{' ...' if len(names) > 14 else ''}"))
    # circles between siblings: modules of one parent, each with all below it
    levels = defaultdict(lambda: defaultdict(set))
    for a, bs in edges.items():
        for b in bs:
            k = 0
            while k < len(a) and k < len(b) and a[k] == b[k]:
                k += 1
            if k < len(a) and k < len(b):
                levels[a[:k]][a[k]].add(b[k])
    for parent, graph in levels.items():
        for comp in scc(graph):
            siblings.append((len(comp), f"{crate.name}: {'::'.join(parent) or '(root)'} -> {', '.join(sorted(comp))}"))
    for comp in sorted(out, key=len, reverse=True):
        names = sorted("::".join(c) or "(root)" for c in comp)
        where.append((len(comp), f"{crate.name}: {', '.join(names[:14])}{' ...' if len(names) > 14 else ''}"))
print(f"circles of files inside crates {total_circles}, files in them {sum(n for n, _ in where)}")
for n, text in sorted(where, reverse=True):
    print(f"  {n:3} {text}")

print(
    f"circles of files of which none is the parent of another {len(strict)}, files in them {sum(n for n, _ in strict)}"
)
for n, text in sorted(strict, reverse=True):
    print(f"  {n:3} {text}")
print(
    f"circles between siblings (modules of one parent, each with all below) {len(siblings)}, modules in them {sum(n for n, _ in siblings)}"
)
for n, text in sorted(siblings, reverse=True):
    print(f"  {n:3} {text}")
# json! in the facade
facade = sum(len(re.findall(r"\bjson!", c)) for p, c in plain.items() if "crates/linwright/" in str(p))
print(
    f"json! in the facade {facade}; in all product code {sum(len(re.findall(chr(92)+'bjson!', c)) for c in plain.values())}"
)
WILD = re.compile(r"(?<![\w])_ (?:if [^=]*)?=>")
print("`_ =>` arms", sum(len(WILD.findall(c)) for c in plain.values()))
pairs = []
for p, c in plain.items():
    for m in re.finditer(r"\bfn\s+(\w+)[^({;]*(?:<[^>]*>)?\(", c):
        depth, i = 1, m.end()
        while i < len(c) and depth:
            depth += {"(": 1, ")": -1}.get(c[i], 0)
            i += 1
        params = c[m.end() : i - 1]
        for t in re.finditer(r":\s*&?(?:mut )?\(([^()]*)\)", params):
            parts = [x.strip() for x in t[1].split(",") if x.strip()]
            if len(parts) >= 2:
                pairs.append((m[1], parts, p))
same = [x for x in pairs if len(set(x[1])) == 1]
print(f"tuple parameters {len(pairs)}, of equal types {len(same)} (pairs {sum(len(x[1]) == 2 for x in same)})")
methods = None
binaries = subprocess.run(
    ["cargo", "metadata", "--no-deps", "--format-version", "1"], cwd=ROOT, capture_output=True, check=True
)
meta = json.loads(binaries.stdout)
kinds = Counter()
for pkg in meta["packages"]:
    for t in pkg["targets"]:
        if t["test"]:
            kinds[(t["kind"][0], bool(t.get("required-features")))] += 1
print(
    f"test binaries {sum(v for (k, r), v in kinds.items() if not r)} (behind features {sum(v for (k, r), v in kinds.items() if r)}): {dict(Counter({k if not r else k + ' (feature)': v for (k, r), v in kinds.items()}))}; doctest crates {sum(t['doctest'] for p in meta['packages'] for t in p['targets'])}"
)
FOUND = re.compile(r"\blet (?:mut )?found\b|\bfound:")
print(
    "run.rs files",
    sum(p.name == "run.rs" for p in codes),
    "names found",
    sum(len(FOUND.findall(c)) for c in plain.values()),
)
if BINARY:
    schema = json.loads(subprocess.run([BINARY, "run", "--print-schema"], capture_output=True, check=True).stdout)
    names, used, per_verb = Counter(), 0, {}
    for verb, s in schema["$defs"].items():
        props = list(s.get("properties", {}))
        per_verb[verb] = len(props)
        used += len(props)
        names.update(props)
    print(f"options in the schema of {len(per_verb)} jobs: names {len(names)}, uses {used}")
    print("  " + ", ".join(f"{k} {v}" for k, v in sorted(per_verb.items(), key=lambda x: -x[1])))
    everywhere = [k for k, v in names.items() if v == len(per_verb)]
    print(f"  in all jobs: {everywhere}; uses without these {used - len(everywhere) * (len(per_verb) - 1)}")

    # the command line: --help of every command
    def options(words):
        text = subprocess.run([BINARY, *words, "--help"], capture_output=True, text=True).stdout
        return re.findall(r"^\s+(?:-\w, )?--([\w-]+)", text, re.M), text

    def commands(words):
        _, text = options(words)
        m = re.search(r"^Commands:\n((?:.|\n)*?)(?:^\S|\Z)", text, re.M)
        return [w for w in re.findall(r"^  ([a-z][\w-]*)", m[1], re.M) if w != "help"] if m else []

    top = commands([])
    leaf = []
    for w in top:
        sub = commands([w])
        leaf += [[w, s] for s in sub] if sub else [[w]]
    allnames, uses_ = Counter(), 0
    per_cmd = {}
    for words in leaf:
        found = set(options(words)[0])
        per_cmd[" ".join(words)] = len(found)
        allnames.update(found)
    shared = [k for k, v in allnames.items() if v == len(leaf)]
    total = sum(allnames.values())
    print(
        f"commands {len(leaf)}; option names in --help {len(allnames)}, uses {total}; shared by all {sorted(shared)}; uses with these once {total - len(shared) * (len(leaf) - 1)}"
    )
    print("  " + ", ".join(f"{k} {v}" for k, v in sorted(per_cmd.items(), key=lambda x: -x[1])[:20]))
    long_h = []
    for words in leaf:
        n = subprocess.run([BINARY, *words, "-h"], capture_output=True, text=True).stdout.count("\n")
        if n > 40:
            long_h.append((n, " ".join(words)))
    print(f"-h over 40 lines: {len(long_h)} of {len(leaf)}: {sorted(long_h, reverse=True)[:8]}")
