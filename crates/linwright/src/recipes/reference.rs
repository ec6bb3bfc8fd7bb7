//! Reference of recipes: their JSON schema, and a page for readers. Both follow from the schemas of
//! the jobs.

use super::list;
use crate::jobs::kit::{Catalogue, Field, Kind, RECIPE_VERSION, Verb, bound_text};
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// The JSON schema of recipes of jobs.
#[must_use]
pub fn schema() -> Value {
    let jobs: Map<String, Value> = list::verbs()
        .map(|verb| (key_of(verb), (verb.schema)().to_value()))
        .map(|(key, schema)| (key, with_references(schema)))
        .collect();
    let name = json!({
        "type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$",
        "description": "Name of the job; by default the verb and its number, such as compress-1.",
    });
    let note = json!({
        "type": "string", "maxLength": 400,
        "description": "A line above its results in the report, such as what a paper published.",
    });
    let entries: Vec<Value> = jobs
        .keys()
        .map(|key| {
            json!({
                "type": "object", "required": [key], "additionalProperties": false,
                "properties": { key: { "$ref": format!("#/$defs/{key}") }, "name": name, "note": note },
            })
        })
        .collect();
    let list = json!({ "type": "array", "minItems": 1, "items": { "oneOf": entries } });
    let single = jobs.keys().map(|key| json!({ "required": [key] }));
    let forms: Vec<Value> = [json!({ "required": ["jobs"] }), json!({ "required": ["stages"] })]
        .into_iter()
        .chain(single)
        .collect();
    let mut properties = Map::from_iter([
        ("version".to_owned(), json!({ "const": RECIPE_VERSION })),
        ("title".to_owned(), json!({ "type": "string", "description": "Heading of the report." })),
        ("jobs".to_owned(), list.clone()),
        ("stages".to_owned(), list),
    ]);
    let of_job = |key: &String| (key.clone(), json!({ "$ref": format!("#/$defs/{key}") }));
    properties.extend(jobs.keys().map(of_job));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Recipe of Linwright",
        "description": "A job, a list of jobs, or the stages of a pipeline. Other keys are options \
            of every job that has them and does not give them.",
        "type": "object", "required": ["version"], "properties": properties, "oneOf": forms,
        "$defs": jobs,
    })
}

fn key_of(verb: &Verb) -> String {
    verb.name.replace('-', "_")
}

/// A schema whose options can also refer to an earlier job.
fn with_references(mut schema: Value) -> Value {
    // Defaults of a recipe may supply required options of a job.
    if let Some(map) = schema.as_object_mut() {
        map.remove("required");
        map.remove("$schema");
    }
    let reference = json!({
        "type": "object", "required": ["from"], "additionalProperties": false,
        "properties": {
            "from": { "type": "string", "description": "Name of an earlier job." },
            "file": { "type": "string", "description": "File below its directory." },
        },
    });
    let options = schema.get_mut("properties").and_then(Value::as_object_mut);
    for option in options.into_iter().flat_map(Map::values_mut) {
        let mut plain = option.take();
        if let Some(items) = plain.get_mut("items") {
            *items = json!({ "anyOf": [items.take(), reference] });
        }
        *option = json!({ "anyOf": [plain, reference] });
    }
    schema
}

/// The page on recipes, in Markdown.
#[must_use]
pub fn page() -> String {
    let mut text = String::from(HEAD);
    for verb in list::verbs() {
        let about = verb.about.split("\n\n").next().unwrap_or_default();
        let _ = write!(text, "\n## {}\n\n{about}\n\n", key_of(verb));
        text += "| option | value | default | meaning |\n| --- | --- | --- | --- |\n";
        for field in (verb.fields)() {
            let _ = writeln!(
                text,
                "| `{}` | {} | {} | {} |",
                field.key,
                value_of(&field),
                field.default.as_ref().map_or_else(String::new, |value| format!("`{value}`")),
                field.help.replace('|', "\\|"),
            );
        }
    }
    text
}

fn names(catalogue: &Catalogue) -> String {
    let names = catalogue.entries.iter().map(|entry| format!("`{}`", entry.name));
    names.collect::<Vec<_>>().join(", ")
}

fn value_of(field: &Field) -> String {
    let one = match &field.kind {
        Kind::Flag => "`true`".to_owned(),
        Kind::Integer { max: u64::MAX, .. } => "whole number".to_owned(),
        Kind::Integer { min, max } => format!("whole number from {min} to {max}"),
        Kind::Number { min, max } => {
            format!("number from {} to {}", bound_text(*min), bound_text(*max))
        }
        Kind::Text if field.is_place() => "place below the directory of the run".to_owned(),
        Kind::Text if field.is_path => "path".to_owned(),
        Kind::Text => "text".to_owned(),
        Kind::Term(catalogue) => match (catalogue.unnamed(), &catalogue.head) {
            (Some(entry), head) => {
                let keys = entry.keys.iter().map(|key| format!("`{}`", key.name));
                let keys = keys.collect::<Vec<_>>().join(", ");
                match head {
                    Some(head) => format!("`{}`, alone or with {keys}", head.name),
                    None => format!("keys with values: {keys}"),
                }
            }
            (None, _) => format!("{} with its options: {}", catalogue.what, names(catalogue)),
        },
        Kind::Named(names) => {
            let names: Vec<String> = names.iter().map(|name| format!("`{}`", name.name)).collect();
            names.join(", ")
        }
    };
    if field.is_list { format!("list: {one}") } else { one }
}

const HEAD: &str = "# Recipes

This page is generated by `linwright run --print-reference`; a test compares both.

A recipe is a YAML file that describes what to run: one job, a list of jobs, or the stages of a pipeline:

```yaml
version: 1
title: Two methods                     # heading of the report
model: pocket                          # default of every job; works for any option
jobs:
  - compress: {keep: 0.8}              # named compress-1
  - compress: {method: laser, keep: 0.8}
    name: truncated
  - eval: {model: {from: truncated}, baseline: pocket, text: pocket}
  - export: {model: {from: compress-1}, form: dense}
```

- A job is the name of a command with its options. An option has one name everywhere: `text_field` here,
  `--text-field` on the command line. `--print-recipe` prints any command of this page as a recipe.
- A job can have a `name`, and a `note`: a line above its results in the report, such as what a paper published.
- `{from: NAME}` refers to the output of an earlier job: its directory, for `sweep` its `result.json`, for `plan` its
  `edits.json`; `{from: NAME, file: FILE}` to a file in its directory. Items of lists and
  values of keys can also be references.
- Keys next to `jobs` are defaults for every job that has these options and does not set them.
- `stages` instead of `jobs` describes a pipeline: a stage without `model` works on the model that the previous stages
  wrote, the first stage on the model of the recipe; `baseline: true` refers to the latter.
- `linwright run -r FILE -o DIR` runs it, and the same command resumes it, unless a text or a model (by path) has
  changed since. Each job writes to `DIR/NAME`, or to `DIR/jobs/NAME` if the recipe itself writes a file
  `DIR/NAME`. Paths that a job writes (`output`, `html`, `checkpoint`, `cache`) are relative
  to `DIR` and inside it: absolute paths, `..` and links are refused. A result that was changed after its job wrote it
  is an error; if it is removed, the job runs again. `DIR` contains the complete recipe (`recipe.yaml`), the results
  (`results.json`, `report.html`, `report.md`), everything needed to run it again, with hashes of all inputs
  (`reproduce.json`), and times and machine (`measured.json`).
- `--set KEY=VALUE` replaces a value: `--set compress-1.keep=0.7`, `--set seed=1`.
- `--shard i/N` runs a share of the jobs; `linwright merge` merges the directories of all shares.
- `linwright run --print-schema` prints the JSON schema of this page, for editors.

## Comparisons

Rows of methods on sets of layers, with several seeds, and the dense network scored in the same run, as in
`recipes/rotor-paper-pocket.yaml`; `compare_net` (`recipes/mnist-cnn.yaml`) and `molecule_compare`
(`recipes/tensornet-ethanol.yaml`) have the same keys for networks of images and potentials:

```yaml
version: 1
title: Two methods
compare:
  model: pocket
  layers: 6/6,7                       # sets, each replaced separately
  roles: [query, key, value]
  heal: ridge                         # of every row; of networks of images {roles: linear, layers: 4}
  seed: [0, 1]                        # the report has means and standard deviations
  calibration: {dataset: pocket, num_tokens: 40000, shuffle: true}   # a seed draws the order
  text: pocket
  exclude_overlap: true
  dtype: f32                          # models are scored with these numbers
  keep: []                            # no shares: rows have sizes of their own, or standard ones
  no_controls: true
  methods:
    - {method: rotor, epochs: 6}
    - {method: low_rank, size: rank=4, label: LR4}
    - {method: dense, label: untouched}
  against: [LR4]                      # rows with which all others are compared, item by item
```

Networks are compared by perplexity, on images by cross-entropy in nats (with the accuracy), on molecules by the mean
absolute error of forces (with that of energies per atom), in the units of the model. A seed determines the order of
what is fitted to; the last share of it, `validation` of images and structures, validates fits. No image or
structure of one set may be fitted to and scored; equal ones of two sets are reported, as are words that texts share.
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipes::read;
    use std::path::Path;

    #[test]
    fn the_page_of_the_documentation_is_that_of_this_version() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recipes.md");
        let kept = std::fs::read_to_string(path).unwrap();
        let at = page().lines().zip(kept.lines()).position(|(own, kept)| own != kept);
        assert!(
            kept == page(),
            "docs/recipes.md differs from line {at:?}; write it again with \
             `cargo run -- run --print-reference > docs/recipes.md`"
        );
    }

    #[test]
    fn examples_of_the_page_are_recipes() {
        let blocks: Vec<&str> = HEAD.split("```").skip(1).step_by(2).collect();
        assert_eq!(blocks.len(), 2);
        for block in blocks {
            let text = block.strip_prefix("yaml\n").unwrap();
            let read = read(Path::new("example"), "example", text, &[]);
            read.and_then(|list| list.check()).unwrap();
        }
    }

    #[test]
    fn the_schema_names_every_job_and_option() {
        let schema = schema();
        for verb in list::verbs() {
            let options = &schema["$defs"][key_of(verb)]["properties"];
            for field in (verb.fields)() {
                let option = &options[&field.key]["anyOf"];
                assert_eq!(option.as_array().map(Vec::len), Some(2), "{} {}", verb.name, field.key);
            }
            let entries = schema["properties"]["jobs"]["items"]["oneOf"].as_array().unwrap();
            assert!(entries.iter().any(|entry| entry["required"][0] == key_of(verb)));
        }
        assert!(schema["$defs"].get("run").is_none(), "a recipe runs no recipe");
    }
}
