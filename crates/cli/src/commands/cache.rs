//! `linwright cache`: lists and removes finished pieces of work.

mod old;

use super::{print, print_json, table};
use crate::args::Shared;
use crate::console::Console;
use crate::failure::Failure;
use crate::host::variable;
use clap::{ArgGroup, Args, Subcommand};
use linwright::report::number::bytes;
use linwright::run::store::{Entry, Place, ROOT_VARIABLE, State, Store, place};
use linwright::run::{Monitor, shown, state};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// List and remove finished pieces of work, such as decompositions and spectra of weights, which
/// later commands reuse.
#[derive(Debug, Args)]
pub(crate) struct CacheArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List kinds of finished pieces, their number, size and last use, and unfinished work.
    List(ListArgs),
    /// Remove finished pieces or unfinished work, except those in use by running commands.
    Rm(RmArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    store: StoreArg,
}

#[derive(Debug, Args)]
struct StoreArg {
    /// The store, or a directory of a run [default: $LINWRIGHT_STORE, or linwright/store in
    /// $XDG_CACHE_HOME or ~/.cache].
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).multiple(true))]
struct RmArgs {
    /// Everything in the store.
    #[arg(long, group = "what")]
    all: bool,
    /// Finished pieces of a kind, as listed; may be repeated.
    #[arg(long, value_name = "KIND", group = "what")]
    kind: Vec<String>,
    /// Unfinished work: interrupted commands then start again from their last finished piece.
    #[arg(long, group = "what")]
    unfinished: bool,
    /// Damaged pieces that were moved aside, and leftovers of killed commands.
    #[arg(long, group = "what")]
    damaged: bool,
    /// Caches of earlier versions, which are no longer read.
    #[arg(long, group = "what")]
    old: bool,
    /// Only show what would be removed.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    store: StoreArg,
}

pub(crate) fn run(args: &CacheArgs, shared: &Shared) -> Result<(), Failure> {
    match &args.action {
        Action::List(args) => list(args, shared),
        Action::Rm(args) => remove(args, shared),
    }
}

/// The store given by the options, if any, and its largest size.
fn store(arg: &StoreArg) -> Result<(Store, u64), Failure> {
    let Place { root, bound_bytes } = place(&variable)?;
    let root = arg.cache.clone().or(root).ok_or_else(|| {
        Failure::usage(format!("none of {ROOT_VARIABLE}, XDG_CACHE_HOME and HOME is set"))
            .hint("give --cache DIR")
    })?;
    Ok((Store::at(&root), bound_bytes))
}

/// Summary of all pieces of a kind in one state.
#[derive(Clone, Copy, Debug)]
struct Sum {
    pieces: usize,
    bytes: u64,
    oldest: SystemTime,
    last_use: SystemTime,
}

impl Sum {
    fn add(sums: &mut BTreeMap<String, Self>, name: String, entry: &Entry) {
        let (oldest, last_use) = (entry.last_use, entry.last_use);
        let sum = sums.entry(name).or_insert(Self { pieces: 0, bytes: 0, oldest, last_use });
        sum.pieces += 1;
        sum.bytes += entry.bytes;
        sum.oldest = sum.oldest.min(entry.last_use);
        sum.last_use = sum.last_use.max(entry.last_use);
    }

    fn json(&self, kind: &str) -> Value {
        json!({
            "kind": kind, "pieces": self.pieces, "bytes": self.bytes,
            "oldest_use": seconds(self.oldest), "last_use": seconds(self.last_use),
        })
    }

    fn row(&self, kind: &str) -> Vec<String> {
        let (oldest, last) = (age(self.oldest), age(self.last_use));
        vec![kind.to_owned(), self.pieces.to_string(), bytes(self.bytes), oldest, last]
    }
}

/// The kind of an entry, or a description of other entries.
fn name_of(entry: &Entry) -> String {
    match entry.state {
        State::Finished => entry.kind.clone(),
        State::Damaged => format!("{} (damaged)", entry.kind),
        State::Partial => format!("{} (left by a killed command)", entry.kind),
        State::Unfinished { .. } => "unfinished".to_owned(),
    }
}

fn list(args: &ListArgs, shared: &Shared) -> Result<(), Failure> {
    let (store, bound_bytes) = store(&args.store)?;
    let entries = store.entries()?;
    let mut sums = BTreeMap::new();
    let is_unfinished = |entry: &&Entry| matches!(entry.state, State::Unfinished { .. });
    for entry in entries.iter().filter(|entry| !is_unfinished(entry)) {
        Sum::add(&mut sums, name_of(entry), entry);
    }
    let unfinished: Vec<&Entry> = entries.iter().filter(is_unfinished).collect();
    let total: u64 = entries.iter().map(|entry| entry.bytes).sum();
    let root = store.root().map_or_else(String::new, |root| root.display().to_string());
    let old = old::caches();
    if shared.json {
        let kinds: Vec<Value> = sums.iter().map(|(kind, sum)| sum.json(kind)).collect();
        let unfinished: Vec<Value> =
            unfinished.iter().map(|entry| unfinished_json(entry)).collect();
        let old: Vec<Value> = old.iter().map(old::Cache::json).collect();
        return print_json(&json!({
            "store": root, "bytes": total, "bound_bytes": bound_bytes, "kinds": kinds,
            "unfinished": unfinished, "old": old,
        }));
    }
    let mut text = format!("{root}: {} of at most {}", bytes(total), bytes(bound_bytes));
    if !sums.is_empty() {
        let rows: Vec<Vec<String>> = sums.iter().map(|(kind, sum)| sum.row(kind)).collect();
        let head = ["kind", "pieces", "size", "oldest use", "last use"];
        text += &format!("\n\n{}", table(&head, &rows));
    }
    if !unfinished.is_empty() {
        let rows: Vec<Vec<String>> = unfinished.iter().map(|entry| unfinished_row(entry)).collect();
        text += &format!("\n\n{}", table(&["unfinished work", "state", "size", "last use"], &rows));
    }
    for cache in &old {
        text += &format!("\n\n{}", cache.in_words());
    }
    print(&text)
}

fn unfinished_json(entry: &Entry) -> Value {
    let State::Unfinished { what, is_busy, process } = &entry.state else { return Value::Null };
    json!({
        "what": what, "fingerprint": entry.fingerprint, "bytes": entry.bytes,
        "last_use": seconds(entry.last_use), "busy": is_busy, "process": process,
        "directory": entry.path(),
    })
}

fn unfinished_row(entry: &Entry) -> Vec<String> {
    let (what, state) = match &entry.state {
        State::Unfinished { what, is_busy: true, process: Some(process) } => {
            (what.as_str(), format!("in use by process {process}"))
        }
        State::Unfinished { what, is_busy: true, process: None } => {
            (what.as_str(), "in use by a process".to_owned())
        }
        State::Unfinished { what, is_busy: false, .. } => (what.as_str(), "interrupted".to_owned()),
        State::Finished | State::Damaged | State::Partial => ("", String::new()),
    };
    vec![shown(what), state, bytes(entry.bytes), age(entry.last_use)]
}

/// Whether the options choose an entry.
fn is_chosen(args: &RmArgs, entry: &Entry) -> bool {
    args.all
        || match entry.state {
            State::Finished => args.kind.contains(&entry.kind),
            State::Damaged | State::Partial => args.damaged,
            State::Unfinished { .. } => args.unfinished,
        }
}

fn remove(args: &RmArgs, shared: &Shared) -> Result<(), Failure> {
    let console = Console::new(shared);
    let (store, _) = store(&args.store)?;
    let entries = store.entries()?;
    check_kinds(&args.kind, &entries)?;
    let (mut removed, mut busy) = (BTreeMap::new(), 0);
    for entry in entries.iter().filter(|entry| is_chosen(args, entry)) {
        let is_busy = matches!(entry.state, State::Unfinished { is_busy: true, .. });
        let is_removed = if args.dry_run { !is_busy } else { store.remove(entry)? };
        if is_removed {
            Sum::add(&mut removed, name_of(entry), entry);
        } else if state::exists(entry.path()) {
            busy += 1;
        }
    }
    if busy > 0 {
        console.note(&format!("note: {busy} in use by other commands are kept"));
    }
    let mut removed_old = Vec::new();
    for cache in old::caches().into_iter().filter(|_| args.old) {
        if !args.dry_run {
            cache.remove()?;
        }
        removed_old.push(cache);
    }
    if shared.json {
        let kinds: Vec<Value> = removed.iter().map(|(kind, sum)| sum.json(kind)).collect();
        let old: Vec<Value> = removed_old.iter().map(old::Cache::json).collect();
        let removed = json!({"removed": kinds, "old": old, "busy": busy, "dry_run": args.dry_run});
        return print_json(&removed);
    }
    let verb = if args.dry_run { "would remove" } else { "removed" };
    let mut lines: Vec<String> = removed
        .iter()
        .map(|(kind, sum)| format!("{verb} {} {kind}, {}", sum.pieces, bytes(sum.bytes)))
        .collect();
    let told = |cache: &old::Cache| format!("{verb} {}", cache.in_words());
    lines.extend(removed_old.iter().map(told));
    if lines.is_empty() {
        lines.push("nothing to remove".to_owned());
    }
    print(&lines.join("\n"))
}

/// Rejects a kind without finished pieces.
fn check_kinds(kinds: &[String], entries: &[Entry]) -> Result<(), Failure> {
    let finished = entries.iter().filter(|entry| entry.state == State::Finished);
    let mut known: Vec<&str> = finished.map(|entry| entry.kind.as_str()).collect();
    known.dedup();
    match kinds.iter().find(|kind| !known.contains(&kind.as_str())) {
        None => Ok(()),
        Some(kind) => {
            let known =
                if known.is_empty() { "no pieces at all".to_owned() } else { known.join(", ") };
            let kind = shown(kind);
            Err(Failure::usage(format!("--kind {kind}: the store has no such pieces, but {known}")))
        }
    }
}

/// Seconds since 1970.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Time since the last use, in one unit.
fn age(time: SystemTime) -> String {
    in_one_unit(SystemTime::now().duration_since(time).unwrap_or_default())
}

fn in_one_unit(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86400 => format!("{} h ago", seconds / 3600),
        86400.. => format!("{} d ago", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_one_unit() {
        for (seconds, expected) in [
            (0, "0 s ago"),
            (59, "59 s ago"),
            (60, "1 min ago"),
            (7300, "2 h ago"),
            (200_000, "2 d ago"),
        ] {
            assert_eq!(in_one_unit(Duration::from_secs(seconds)), expected);
        }
    }
}
