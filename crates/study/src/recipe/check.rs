//! Checks of recipes that need neither model nor data.

use super::{Healing, Recipe, Row, Table, VERSION};
use linwright_compress::form::RecipeError;
use linwright_run::shown;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;

/// What recipes of a kind have of their own: their calibration data, for which this is implemented,
/// their evaluation, and what tables without a word about it replace and heal.
pub(crate) trait Kind: Serialize + DeserializeOwned {
    /// Its evaluation.
    type Evaluation: Serialize + DeserializeOwned;

    /// Roles that are replaced; `None` for every slot.
    fn targets() -> Option<Vec<String>>;

    /// Slots that heal.
    fn heal() -> Vec<Healing>;

    /// Whether two words are one role.
    fn is_one_role(one: &str, other: &str) -> bool;

    /// Checks calibration and evaluation.
    fn check(&self, eval: &Self::Evaluation) -> Result<(), Wrong>;
}

/// A key, and what is wrong with its value.
pub(crate) struct Wrong {
    key: String,
    reason: String,
}

pub(super) fn wrong<T>(key: impl Into<String>, reason: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong { key: key.into(), reason: reason.into() })
}

/// Checks a recipe.
pub(super) fn check<C: Kind>(
    path: &Path,
    recipe: &Recipe<C, C::Evaluation>,
) -> Result<(), RecipeError> {
    let tables = || recipe.tables.iter().enumerate();
    let found = check_lists(recipe)
        .and_then(|()| recipe.calibration.check(&recipe.eval))
        .and_then(|()| check_titles(&recipe.tables))
        .and_then(|()| tables().try_for_each(|(index, table)| check_table::<C>(index, table)))
        .and_then(|()| check_names(&recipe.tables));
    found.map_err(|Wrong { key, reason }| RecipeError::Value { path: path.to_owned(), key, reason })
}

/// The first repeated value of a list.
fn repeated<T: PartialEq>(list: &[T]) -> Option<&T> {
    list.iter().enumerate().find(|(k, value)| list[..*k].contains(value)).map(|(_, value)| value)
}

fn check_lists<C, E>(recipe: &Recipe<C, E>) -> Result<(), Wrong> {
    if recipe.version != VERSION {
        return wrong("version", format!("is {}, this program supports {VERSION}", recipe.version));
    }
    if recipe.seeds.is_empty() || recipe.tables.is_empty() {
        return wrong("seeds and tables", "must not be empty");
    }
    match repeated(&recipe.seeds) {
        Some(seed) => wrong("seeds", format!("has {seed} twice; equal runs are not independent")),
        None => Ok(()),
    }
}

fn check_titles(tables: &[Table]) -> Result<(), Wrong> {
    let titles: Vec<&str> = tables.iter().map(|table| table.title.as_str()).collect();
    match repeated(&titles) {
        Some(title) => wrong("tables", format!("has two tables titled \"{}\"", shown(title))),
        None => Ok(()),
    }
}

fn check_table<C: Kind>(index: usize, table: &Table) -> Result<(), Wrong> {
    let key = |name: &str| format!("tables[{index}].{name}");
    let targets = table.targets.as_deref();
    if table.methods.is_empty() || table.layers.is_empty() || targets.is_some_and(<[_]>::is_empty) {
        return wrong(key("methods, layers and targets"), "must not be empty");
    }
    if let Some(role) = targets.and_then(repeated) {
        return wrong(key("targets"), format!("has {role} twice"));
    }
    if let Some(set) = table.layers.iter().find(|set| is_no_set(set)) {
        return wrong(key("layers"), format!("has the set {set:?}; a set names each layer once"));
    }
    if let Some(set) = repeated(&table.layers) {
        return wrong(key("layers"), format!("has the set {set:?} twice"));
    }
    let labels: Vec<String> = table.methods.iter().map(Row::label).collect();
    if let Some(label) = repeated(&labels) {
        return wrong(
            key("methods"),
            format!("has two rows named {}; give them labels", shown(label)),
        );
    }
    if let Some(label) = table.against.iter().find(|label| !labels.contains(label)) {
        let reason = format!("names {}, and no row has this label", shown(label));
        return wrong(key("against"), reason);
    }
    if let Some(label) = repeated(&table.against) {
        return wrong(key("against"), format!("has {} twice", shown(label)));
    }
    for (row, method) in table.methods.iter().enumerate() {
        if let Err(error) = method.fit.check_size(method.size) {
            return wrong(key(&format!("methods[{row}].size")), format!("is wrong: {error}"));
        }
        if let Err(reason) = method.fit.check(method.size) {
            return wrong(key(&format!("methods[{row}].fit")), reason);
        }
    }
    check_heal(&key("heal"), table)?;
    match targets.into_iter().flatten().find(|word| heals_again::<C>(table, word)) {
        Some(word) => {
            let reason = format!("has {word}, which heal would refit again; set heal: []");
            wrong(key("targets"), reason)
        }
        None => Ok(()),
    }
}

/// Whether a set of layers is empty, or has one of them twice.
fn is_no_set(layers: &[usize]) -> bool {
    layers.is_empty() || repeated(layers).is_some()
}

fn check_heal(key: &str, table: &Table) -> Result<(), Wrong> {
    let all = table.heal.as_deref().unwrap_or_default();
    for (place, healing) in all.iter().enumerate() {
        let key = format!("{key}[{place}]");
        if healing.roles.is_empty() && healing.patterns.is_empty() {
            return wrong(key, "selects no slots; give roles or patterns");
        }
        if let Some(layers) = healing.layers.as_ref().filter(|layers| is_no_set(layers)) {
            return wrong(key, format!("has the set {layers:?}; a set names each layer once"));
        }
        healing.method().check(None).or_else(|reason| wrong(key, reason))?;
    }
    Ok(())
}

/// Whether a slot set of the edited layers heals a role that is replaced there.
fn heals_again<C: Kind>(table: &Table, word: &str) -> bool {
    let heals = |healing: &Healing| {
        let is_whole = healing.layers.is_none() && healing.patterns.is_empty();
        is_whole && healing.roles.iter().any(|role| C::is_one_role(role, word))
    };
    table.heal.iter().flatten().any(heals)
}

/// Rejects two methods with the same label, since plots combine results by label.
fn check_names(tables: &[Table]) -> Result<(), Wrong> {
    let rows: Vec<&Row> = tables.iter().flat_map(|table| &table.methods).collect();
    for (k, row) in rows.iter().enumerate() {
        let label = row.label();
        if rows[..k]
            .iter()
            .any(|other| other.label() == label && (&other.fit, other.size) != (&row.fit, row.size))
        {
            return wrong(
                "tables",
                format!(
                    "have two methods with the label {}; give them different ones",
                    shown(&label)
                ),
            );
        }
    }
    Ok(())
}
