//! Dependencies between crates, as ARCHITECTURE.md allows.
//!
//! Two tables of that page are the rule: allowed imports of each crate, and crates to which some
//! external dependencies are confined. They are compared with cargo's metadata, for builds and
//! tests.

use crate::markdown::{code_spans, table};
use crate::metadata::{Package, packages};
use crate::offence::Offence;
use crate::repository::Repository;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};

const PAGE: &str = "ARCHITECTURE.md";
const LAYERS_HEADER: &[&str] = &["crate", "may import"];
/// What precedes the imports that only tests may have.
const IN_TESTS: &str = "in tests";
const CONFINED_HEADER: &[&str] = &["dependency", "only in"];

/// Allowed names for each name.
type Allowed = BTreeMap<String, BTreeSet<String>>;

/// Reports violations of the tables, crates without a row and rows without a crate.
pub(crate) fn run(repository: &Repository) -> Result<Vec<Offence>> {
    let page = repository.text(PAGE)?;
    let layers = allowed(&page, LAYERS_HEADER)?;
    let built = allowed_in_builds(&page)?;
    let confined = allowed(&page, CONFINED_HEADER)?;
    let members = packages(repository)?;
    let mut offences = missing_rows(&members, &layers);
    offences.extend(forbidden_imports(&members, &layers, |member| &member.dependencies));
    offences.extend(forbidden_imports(&members, &built, |member| &member.built));
    offences.dedup();
    offences.extend(escaped(&members, &confined));
    Ok(offences)
}

/// Reads a table: names in its first column, allowed names in its second.
fn allowed(page: &str, header: &[&str]) -> Result<Allowed> {
    read(page, header, |cell| cell)
}

/// Reads the imports that builds may have.
fn allowed_in_builds(page: &str) -> Result<Allowed> {
    read(page, LAYERS_HEADER, |cell| cell.split(IN_TESTS).next().unwrap_or_default())
}

fn read(page: &str, header: &[&str], part: impl Fn(&str) -> &str) -> Result<Allowed> {
    let table = table(page, header)
        .with_context(|| format!("{PAGE} has no table with the columns {header:?}"))?;
    let owned = |cell: &str| code_spans(cell).into_iter().map(String::from).collect::<Vec<_>>();
    let rows = table[1..].iter().flat_map(|row| {
        let beside: BTreeSet<String> = owned(part(&row[1])).into_iter().collect();
        owned(&row[0]).into_iter().map(move |name| (name, beside.clone()))
    });
    Ok(rows.collect())
}

fn missing_rows(members: &[Package], layers: &Allowed) -> Vec<Offence> {
    let folders: BTreeSet<&str> = members.iter().map(|member| member.folder.as_str()).collect();
    let rows: BTreeSet<&str> = layers.keys().map(String::as_str).collect();
    let crates = folders.difference(&rows).map(|name| (*name, "has no row in the table of layers"));
    let absent = rows.difference(&folders).map(|name| (*name, "has a row, but is not a crate"));
    crates.chain(absent).map(|(name, what)| Offence::new(format!("{PAGE}: {name}"), what)).collect()
}

fn forbidden_imports(
    members: &[Package],
    layers: &Allowed,
    of: impl Fn(&Package) -> &[String],
) -> Vec<Offence> {
    let folders: BTreeMap<&str, &str> =
        members.iter().map(|member| (member.name.as_str(), member.folder.as_str())).collect();
    let mut offences = Vec::new();
    for member in members {
        let imports = of(member).iter().filter_map(|name| folders.get(name.as_str()));
        let may = layers.get(&member.folder);
        for import in imports {
            if !may.is_some_and(|may| may.contains(*import)) {
                let what = format!("imports {import}, which {PAGE} does not allow");
                offences.push(Offence::new(&member.folder, what));
            }
        }
    }
    offences
}

fn escaped(members: &[Package], confined: &Allowed) -> Vec<Offence> {
    let mut offences = Vec::new();
    for member in members {
        for name in &member.dependencies {
            let homes = confined.get(name);
            if homes.is_some_and(|homes| !homes.contains(&member.folder)) {
                let what = format!("depends on {name}, which {PAGE} confines to other crates");
                offences.push(Offence::new(&member.folder, what));
            }
        }
    }
    offences
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLES: &str = "\
| crate | may import | must never |
| --- | --- | --- |
| `tensor` | nothing of ours | know a layer |
| `ops` | `tensor` | know a model |

| dependency | only in |
| --- | --- |
| `gemm`, `faer` | `tensor` |
";

    fn member(folder: &str, dependencies: &[&str]) -> Package {
        Package {
            name: format!("linwright-{folder}"),
            folder: folder.to_owned(),
            dependencies: dependencies.iter().map(|name| (*name).to_owned()).collect(),
            built: Vec::new(),
        }
    }

    fn all(member: &Package) -> &[String] {
        &member.dependencies
    }

    #[test]
    fn what_tests_may_import_builds_may_not() {
        let table = TABLES
            .replace("| `tensor` | know a model", "| `tensor`; in tests `files` | know a model");
        let ops = member("ops", &["linwright-tensor", "linwright-files"]);
        let members = [member("tensor", &[]), member("files", &[]), ops];
        assert_eq!(forbidden_imports(&members, &allowed(&table, LAYERS_HEADER).unwrap(), all), []);
        let built = allowed_in_builds(&table).unwrap();
        let offences = forbidden_imports(&members, &built, all);
        assert_eq!(offences.len(), 1);
        assert!(offences[0].what.contains("imports files"), "{offences:?}");
    }

    #[test]
    fn an_import_upwards_is_found() {
        let layers = allowed(TABLES, LAYERS_HEADER).unwrap();
        let good = [member("tensor", &["gemm"]), member("ops", &["linwright-tensor"])];
        assert_eq!(forbidden_imports(&good, &layers, all), []);
        let bad = [member("tensor", &["linwright-ops"]), member("ops", &[])];
        let offences = forbidden_imports(&bad, &layers, all);
        assert_eq!(offences[0].place, "tensor");
        assert!(offences[0].what.contains("imports ops"), "{offences:?}");
    }

    #[test]
    fn crates_and_rows_belong_together() {
        let layers = allowed(TABLES, LAYERS_HEADER).unwrap();
        let members = [member("tensor", &[]), member("flow", &["linwright-tensor"])];
        let offences = missing_rows(&members, &layers);
        assert!(offences[0].place.ends_with("flow") && offences[1].place.ends_with("ops"));
        assert_eq!(forbidden_imports(&members, &layers, all).len(), 1);
    }

    #[test]
    fn a_confined_dependency_is_found() {
        let confined = allowed(TABLES, CONFINED_HEADER).unwrap();
        let members = [member("tensor", &["gemm"]), member("ops", &["faer", "serde"])];
        let offences = escaped(&members, &confined);
        assert_eq!(offences.len(), 1);
        assert!(offences[0].what.contains("faer"));
    }

    #[test]
    fn a_page_without_the_table_is_an_error() {
        assert!(allowed("# Page\n", LAYERS_HEADER).is_err());
    }
}
