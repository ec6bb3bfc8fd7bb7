//! Downloads the missing files of a snapshot.

use super::blob::{Blob, Place, create_parent};
use super::cache::Repository;
use super::client::{Client, LINKED_ETAG, Method, RequestFailure, escaped, number, text};
use super::error::HubError;
use super::id::{Commit, HubId};
use super::listing::{Listing, most_bytes};
use super::settings::HubSettings;
use super::{Found, Hooks};
use crate::shards_of;
use linwright_run::state;

/// Asks the hub for the commit of a revision and downloads the missing files of its snapshot. The
/// ref is written last, so that it never points to an incomplete snapshot.
pub(super) fn fetch_model(
    id: &HubId,
    settings: &HubSettings,
    hooks: &mut Hooks<'_>,
) -> Result<Found, HubError> {
    let client = Client::new(id, settings);
    let listing = client.with_retries(hooks, || Listing::ask(&client))?;
    let weights = listing.weights(&client)?;
    let repository = Repository::new(id, &settings.cache);
    let work = Work { client: &client, repository: &repository, commit: &listing.commit };
    let snapshot = repository.snapshot(&listing.commit);
    let mut wanted = listing.companions();
    wanted.push(weights.clone());
    work.complete(&wanted, hooks)?;
    if weights.ends_with(".json") {
        // Shards are beside their index.
        let folder = weights.rsplit_once('/').map(|(folder, _)| format!("{folder}/"));
        let folder = folder.unwrap_or_default();
        let shards = shards_of(&snapshot.join(&weights))?;
        let shards: Vec<String> = shards.iter().map(|shard| format!("{folder}{shard}")).collect();
        work.complete(&shards, hooks)?;
    }
    write_ref(id, &repository, &listing.commit)?;
    Ok(Found { dir: snapshot, id: id.at(&listing.commit), notes: Vec::new() })
}

/// Downloads missing files of a snapshot of a data set. `id` is the data set at its commit, `asked`
/// at the requested revision.
pub(super) fn fetch_files(
    asked: &HubId,
    id: &HubId,
    commit: &Commit,
    names: &[String],
    settings: &HubSettings,
    hooks: &mut Hooks<'_>,
) -> Result<(), HubError> {
    let client = Client::new(id, settings);
    let repository = Repository::new(id, &settings.cache);
    Work { client: &client, repository: &repository, commit }.complete(names, hooks)?;
    write_ref(asked, &repository, commit)
}

/// Writes the commit of a branch or tag to its ref.
fn write_ref(id: &HubId, repository: &Repository, commit: &Commit) -> Result<(), HubError> {
    if Commit::parse(id.revision()).is_none() {
        let path = repository.reference(id);
        create_parent(&path)?;
        state::write(&path, commit.as_str().as_bytes())?;
    }
    Ok(())
}

/// Downloads into the snapshot of one commit.
struct Work<'a> {
    client: &'a Client<'a>,
    repository: &'a Repository,
    commit: &'a Commit,
}

impl Work<'_> {
    /// Downloads the missing files of the snapshot.
    fn complete(&self, names: &[String], hooks: &mut Hooks<'_>) -> Result<(), HubError> {
        let snapshot = self.repository.snapshot(self.commit);
        let mut blobs = Vec::new();
        for name in names.iter().filter(|name| !snapshot.join(name).is_file()) {
            if (hooks.cancelled)() {
                return Err(HubError::Interrupted { id: self.client.id.to_string() });
            }
            blobs.push(self.client.with_retries(hooks, || self.head(name))?);
        }
        let total: u64 = blobs.iter().map(|blob| blob.size).fold(0, u64::saturating_add);
        if let [first, rest @ ..] = blobs.as_slice() {
            let files = match rest.len() {
                0 => first.name.clone(),
                more => format!("{} and {more} more", first.name),
            };
            let id = self.client.id;
            (hooks.step)(&format!("downloading {id}: {files}, {}", amount(total)));
        }
        let place = Place { repository: self.repository, snapshot: &snapshot };
        let mut before = 0;
        for blob in &blobs {
            blob.ensure(self.client, &place, before, total, hooks)?;
            before += blob.size;
        }
        Ok(())
    }

    /// Requests etag and size of a file.
    fn head(&self, name: &str) -> Result<Blob, RequestFailure> {
        let client = self.client;
        let parts: Vec<String> = name.split('/').map(escaped).collect();
        let page = client.id.page();
        let url = client.url(&[&page, "resolve", self.commit.as_str(), &parts.join("/")]);
        let reply = client.send(Method::Head, &url, name)?;
        let headers = reply.response.headers();
        let wrong =
            |reason: &str| RequestFailure::from(client.bad_response(&reply.host, name, reason));
        if let Some(commit) = text(headers, "x-repo-commit")
            && commit != self.commit.as_str()
        {
            return Err(wrong("belongs to another commit than requested"));
        }
        let linked = headers.contains_key(LINKED_ETAG);
        let etag = text(headers, if linked { LINKED_ETAG } else { "etag" })
            .and_then(|etag| Blob::etag(&etag))
            .ok_or_else(|| wrong("has no etag that can be a file name"))?;
        let size = number(headers, if linked { "x-linked-size" } else { "content-length" })
            .ok_or_else(|| wrong("has no size"))?;
        let limit = most_bytes(client.id.kind(), name);
        if size > limit {
            let (id, file) = (client.id.to_string(), name.to_owned());
            return Err(HubError::TooLarge { id, file, announced: size, limit }.into());
        }
        Ok(Blob { name: name.into(), url, etag, size })
    }
}

/// A number of bytes with its unit.
fn amount(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes.div_ceil(1000)),
        1_000_000..1_000_000_000 => format!("{:.0} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}
