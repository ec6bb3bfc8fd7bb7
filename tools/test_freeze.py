"""Tests of tools/freeze.py, on a small recorded pair: python3 -m unittest discover tools"""

import contextlib
import copy
import io
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import freeze  # noqa: E402
from renaming import Names, NamesError, canonical, path_of, segments  # noqa: E402

COMMAND = "compress pocket --method low_rank --trained --epochs 16 --lname fc --output out"
RESULT = {"found": [{"rank": 4, "loss": 0.25}], "probe": 1, "fingerprint": "ab12", "options": {"lname": "fc"}}


def run(args, stdout="rank 4, loss 0.25: see --lname\n", code="0", **files):
    values = {"code": code, "stdout": stdout, "stderr": ""}
    for name, content in files.items():
        values.update(freeze.values_of(name + ".json", content))
    return {"args": args.split(" "), "values": values}


def recording():
    """A test of two commands, one of another command, and one that runs none."""
    return {
        "version": freeze.VERSION,
        "names": {},
        "crates": ["linwright-compress", "linwright-run"],
        "tests": {"layers_are_replaced": 1, "a_rank_is_needed": 1, "sums_agree": 2},
        "runs": {
            "compress.layers_are_replaced": [
                run(COMMAND, result=RESULT),
                run("report out", stdout="rank 4"),
                run("report out", stdout="rank 5"),
            ],
            "compress.a_rank_is_needed": [run("report out", stdout="rank 4")],
        },
    }


def renamed():
    """The same after a refactoring, and the names that it changed."""
    now = recording()
    result = {
        "options": {"sites": "fc"},
        "kind": "compress",
        "chosen": [{"size": {"rank": 4}, "loss": 0.25}],
        "fingerprint": "cd34",
    }
    new = "compress pocket --output out --sites fc --method low_rank:epochs=16,fit=trained"
    both = [
        run(new, stdout="rank 4, loss 0.25: see --sites\n", result=result),
        run("report out", stdout="rank 4"),
        run("report out", stdout="rank 5"),
    ]
    now["runs"] = {"prune.both": both}
    now["tests"] = {"both": 1, "sums_agree": 2}
    now["crates"] = ["linwright-fit", "linwright-run"]
    names = {
        "options": {
            "compress --lname": "--sites",
            "--epochs": "--method:epochs",
            "--trained": "--method:fit=trained",
        },
        "keys": {"found": "chosen", ".chosen[].rank": ".chosen[].size.rank", "compress .probe": None},
        "added": ["kind"],
        "derived": ["fingerprint"],
        "tests": {"layers_are_replaced": "both", "a_rank_is_needed": "both"},
        "crates": {"linwright-compress": "linwright-fit"},
    }
    return now, names


def compared(now, names):
    before = recording()
    return freeze.Comparison(before, copy.deepcopy(now), Names(names, before["names"])).all()


def failures(now, names, numbers=False):
    report = compared(now, names)
    return report.failures + ([] if numbers else report.words)


def words(now):
    return compared(now, {}).words


class Renamed(unittest.TestCase):
    def assert_one(self, found, *words):
        self.assertEqual(len(found), 1, found)
        for word in words:
            self.assertIn(word, found[0])

    def test_nothing_changed(self):
        self.assertEqual(failures(recording(), {}), [])

    def test_a_listed_renaming_is_no_difference(self):
        now, names = renamed()
        self.assertEqual(failures(now, names), [])

    def test_a_number_that_changed_fails(self):
        for place, value in ((f"result.json{freeze.TAB}.chosen[0].loss", "0.26"), ("stdout", "rank 4, loss 0.26")):
            now, names = renamed()
            self.assertIn(place, {**now["runs"]["prune.both"][0]["values"]})
            now["runs"]["prune.both"][0]["values"][place] = value
            self.assert_one(failures(now, names, numbers=True), "number: ", COMMAND)

    def test_an_exit_code_that_changed_fails(self):
        now = recording()
        now["runs"]["compress.a_rank_is_needed"][0]["values"]["code"] = "1"
        self.assert_one(failures(now, {}, numbers=True), "number: ", "code")

    def test_a_value_lost_from_help_is_a_word(self):
        for args, kind in ((["compress", "--help"], "words"), (["compress"], "lost")):
            before = recording()
            run = before["runs"]["compress.a_rank_is_needed"][0]
            run["args"] = args
            run["values"]["stdout"] = "--rank R"
            now = copy.deepcopy(before)
            del now["runs"]["compress.a_rank_is_needed"][0]["values"]["stdout"]
            report = freeze.Comparison(before, now, Names({}, before["names"])).all()
            self.assertEqual([one.partition(":")[0] for one in report.failures + report.words], [kind])
            self.assertEqual(report.failures == [], kind == "words")

    def test_a_test_that_is_lost_fails(self):
        now = recording()
        del now["tests"]["a_rank_is_needed"], now["runs"]["compress.a_rank_is_needed"]
        found = failures(now, {})
        self.assertEqual(len(found), 2, found)
        self.assertTrue(any("a_rank_is_needed is lost" in one for one in found), found)
        now = recording()
        now["tests"]["sums_agree"] = 1
        self.assert_one(failures(now, {}), "test: sums_agree is lost")

    def test_a_test_that_went_into_none_fails(self):
        now, names = renamed()
        names["tests"]["a_rank_is_needed"] = "nowhere"
        found = failures(now, names)
        self.assertTrue(any("nowhere, which is not there" in one for one in found), found)

    def test_a_key_that_is_renamed_but_not_listed_fails(self):
        now, names = renamed()
        del names["keys"]["found"]
        del names["keys"][".chosen[].rank"]
        found = failures(now, names)
        self.assertEqual([one.partition(":")[0] for one in found], ["lost", "lost", "new", "new"])
        found = failures(now, names, numbers=True)
        self.assertEqual([one.partition(":")[0] for one in found], ["lost", "lost"])

    def test_an_option_that_is_renamed_but_not_listed_fails(self):
        now, names = renamed()
        del names["options"]["compress --lname"]
        found = [one for one in failures(now, names, numbers=True) if not one.startswith("stale")]
        self.assert_one(found, "does not run any more", "which is now", "--lname")

    def test_a_new_key_that_is_not_listed_fails(self):
        now = recording()
        now["runs"]["compress.layers_are_replaced"][0]["values"][f"result.json{freeze.TAB}.kind"] = "compress"
        self.assert_one(failures(now, {}), "new: ", ".kind")
        self.assertEqual(failures(now, {}, numbers=True), [])
        self.assert_one(words(now), "new: ", ".kind")

    def test_a_command_that_is_lost_fails(self):
        now = recording()
        now["runs"]["compress.layers_are_replaced"].pop()
        self.assert_one(failures(now, {}), "does not run any more: report out")

    def test_a_merged_test_without_one_of_the_commands_fails(self):
        now, names = renamed()
        now["runs"]["prune.both"] = now["runs"]["prune.both"][:1]
        self.assertEqual(len(failures(now, names)), 3)

    def test_a_crate_that_is_lost_fails(self):
        now, names = renamed()
        del names["crates"]["linwright-compress"]
        self.assert_one(failures(now, names), "crate: linwright-compress is lost")

    def test_a_stale_entry_fails(self):
        stale = {
            "options": {"compress --gone": "--new"},
            "keys": {"never": "there"},
            "added": ["version"],
            "derived": ["hash"],
            "files": {"a.json": "b.json"},
            "tests": {"no_such_test": "both"},
            "crates": {"linwright-none": "linwright-run"},
        }
        for part, entries in stale.items():
            now, names = renamed()
            old = names.get(part, type(entries)())
            names[part] = {**old, **entries} if isinstance(old, dict) else old + entries
            self.assert_one(failures(now, names), "stale name", part)
        now, names = renamed()
        names["commands"] = [[["compress", "--gone"], ["compress"]]]
        self.assert_one(failures(now, names), "stale name", "commands")

    def test_what_the_recording_knew_is_history(self):
        now, names = recording(), {"options": {"compress --gone": "--new"}, "commands": [[["a"], ["b"]]]}
        before = recording()
        before["names"] = names
        self.assertEqual(freeze.Comparison(before, now, Names(names, names)).all().failures, [])

    def test_other_words_fail_but_with_numbers_alone(self):
        now = recording()
        values = now["runs"]["compress.layers_are_replaced"][0]["values"]
        values["stdout"] = "the loss of rank 4 is 0.25\n"
        self.assert_one(failures(now, {}), "words: ")
        self.assertEqual(failures(now, {}, numbers=True), [])
        values["stdout"] = "the loss 0.25 of rank 4\n"
        self.assert_one(failures(now, {}, numbers=True), "number: ")

    def test_another_order_of_keys_is_words(self):
        now = recording()
        values = now["runs"]["compress.layers_are_replaced"][0]["values"]
        now["runs"]["compress.layers_are_replaced"][0]["values"] = dict(reversed(values.items()))
        self.assert_one(failures(now, {}), "order: ")
        self.assertEqual(failures(now, {}, numbers=True), [])

    def test_volatile_values_and_lines_are_not_compared(self):
        first, second = recording()["runs"], recording()["runs"]
        name = "compress.layers_are_replaced"
        place = f"result.json{freeze.TAB}.probe"
        first[name][0]["values"]["stdout"] = "rank 4\n1.5 s"
        second[name][0]["values"].update({"stdout": "rank 4\n1.6 s", place: "2"})
        before = recording()
        before["runs"] = freeze.settled(first, second)
        now = recording()
        now["runs"][name][0]["values"].update({"stdout": "rank 4\n1.7 s", place: "3"})
        self.assertEqual(freeze.Comparison(before, now, Names({})).all().failures, [])
        now["runs"][name][0]["values"]["stdout"] = "rank 5\n1.7 s"
        self.assert_one(freeze.Comparison(before, now, Names({})).all().failures, "number: ")

    def test_failures_that_have_much_in_common_are_counted_together(self):
        for index in (3, 12):
            failure = f"lost: compress.a_test | compress model --keep 0.5 | out.json .cells[{index}].found\n  was: 1"
            self.assertEqual(freeze.kind_of(failure), "lost: compress out.json .cells[].found")
        self.assertEqual(freeze.kind_of("test: sums_agree is lost"), "test")

    def test_the_verdict_is_printed_and_returned(self):
        now, names = renamed()
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            self.assertTrue(freeze.compare(recording(), now, names, numbers=False))
            self.assertFalse(freeze.compare(recording(), now, {}, numbers=False))
        self.assertIn("0 failures", printed.getvalue())


class Rules(unittest.TestCase):
    def command(self, names, args):
        return " ".join(Names(names).command(args.split(" ")))

    def test_options_of_a_verb_go_before_those_of_all(self):
        names = {"options": {"--rate": "--speed", "laser --rate": "--drop", "attribute cache --rate": "--width"}}
        self.assertEqual(self.command(names, "laser --rate=2"), "laser --drop=2")
        self.assertEqual(self.command(names, "--quiet attribute cache --rate 2"), "--quiet attribute cache --width 2")
        self.assertEqual(self.command(names, "train --rate 2 --rates 3"), "train --speed 2 --rates 3")

    def test_options_become_keys_values_or_nothing(self):
        names = {"options": {"--epochs": "--method:epochs", "--exact": "--fit=exact", "--old": None}}
        self.assertEqual(self.command(names, "fit --epochs 3 --method=svd"), "fit --method=svd:epochs=3")
        self.assertEqual(self.command(names, "fit --exact --old x"), "fit --fit exact --old x")
        self.assertEqual(self.command(names, "fit --epochs 3 x"), "fit x --method :epochs=3")

    def test_commands_are_replaced_piece_by_piece(self):
        names = {"commands": [[["tables", "--from", "{a}", "--seed", "1{b}"], ["compare", "--of", "{a}:{b}"]]]}
        self.assertEqual(self.command(names, "tables x --seed 17 --keep 2 --from y"), "compare x --of y:7 --keep 2")
        self.assertEqual(self.command(names, "tables x --seed 27 --from y"), "tables x --seed 27 --from y")
        self.assertEqual(self.command({"commands": [[["tables"], ["compare"]]]}, "tables x"), "compare x")

    def test_the_order_of_options_and_keys_does_not_count(self):
        one, other = "a --m low_rank:b=1,a --n=2", "a --n 2 --m low_rank:a,b=1"
        self.assertEqual(canonical(one.split(" ")), canonical(other.split(" ")))
        self.assertNotEqual(canonical(["a", "--n", "2"]), canonical(["a", "--n", "3"]))

    def test_paths_are_read_back(self):
        for path in ('.a."b.c"[3].d', "", "[0].x", '."a b[0]"'):
            self.assertEqual(path_of(segments(path)), path if path != '."a b[0]"' else '."a b[0]"')
        self.assertRaises(NamesError, segments, "a.b")

    def test_a_file_that_says_nothing_clear_is_refused(self):
        for tree in ({"option": {}}, {"options": []}, {"options": {"old": "--new"}}, {"commands": [["a"]]}):
            self.assertRaises(NamesError, Names, tree)

    def test_json_in_lines_and_in_strings_is_compared_value_by_value(self):
        self.assertEqual(freeze.values_of("f", '{"a": 1}\n{"a": 2}\n'), {"f\t[0].a": "1", "f\t[1].a": "2"})
        self.assertEqual(freeze.values_of("f", {"m": '{"a": 1.50}'}), {"f\t.m.a": "1.5"})
        self.assertEqual(freeze.values_of("f", "1\n2\n"), {"f": "1\n2\n"})


if __name__ == "__main__":
    unittest.main()
