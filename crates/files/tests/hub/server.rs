//! A server on this machine that answers like the hub, and misbehaves on request.
//!
//! It listens at two ports, which are two hosts to a client: the hub, and the server of large
//! contents that the hub redirects to.

use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

/// The one model of the hub.
pub(crate) const MODEL: &str = "owner/small";
/// The one data set of the hub, of the same files.
pub(crate) const DATASET: &str = "owner/rows";
/// Its commit, which `main`, `v1` and `refs/pr/1` lead to.
pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// What was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Whether the server of contents was asked.
    pub(crate) contents: bool,
    /// `GET` or `HEAD`, and the path.
    pub(crate) line: String,
    pub(crate) token: Option<String>,
    /// The first byte that is wanted.
    pub(crate) start: Option<usize>,
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    /// Bytes of the body after which the connection breaks.
    pub(crate) cut: Option<usize>,
}

impl Answer {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        let headers = vec![("Content-Length", body.len().to_string())];
        Self { status, headers, body, cut: None }
    }

    pub(crate) fn refusal(status: u16, code: &str) -> Self {
        Self::new(status, "{}").with("X-Error-Code", code)
    }

    /// Sets a header, instead of an earlier one of this name.
    pub(crate) fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.retain(|(other, _)| *other != name);
        self.headers.push((name, value.to_string()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(other, _)| *other != name);
        self
    }
}

/// Changes the answer that a good server would give.
type Mood = Box<dyn FnMut(&Request, Answer) -> Answer + Send>;

struct State {
    files: BTreeMap<String, Vec<u8>>,
    requests: Vec<Request>,
    mood: Mood,
    contents: String,
}

/// The server.
pub(crate) struct Hub {
    pub(crate) endpoint: String,
    state: Arc<Mutex<State>>,
}

impl Hub {
    pub(crate) fn new(files: BTreeMap<String, Vec<u8>>) -> Self {
        let [hub, contents] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let address = |listener: &TcpListener| format!("http://{}", listener.local_addr().unwrap());
        let endpoint = address(&hub);
        let state = State {
            files,
            requests: Vec::new(),
            mood: Box::new(|_, answer| answer),
            contents: address(&contents),
        };
        let state = Arc::new(Mutex::new(state));
        for (listener, is_contents) in [(hub, false), (contents, true)] {
            let state = Arc::clone(&state);
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let state = Arc::clone(&state);
                    thread::spawn(move || serve(&stream, is_contents, &state));
                }
            });
        }
        Self { endpoint, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// How it answers from now on.
    pub(crate) fn mood(&self, mood: impl FnMut(&Request, Answer) -> Answer + Send + 'static) {
        self.state().mood = Box::new(mood);
    }

    pub(crate) fn good_mood(&self) {
        self.mood(|_, answer| answer);
    }

    /// Adds a file, or changes one.
    pub(crate) fn put(&self, name: &str, content: impl Into<Vec<u8>>) {
        self.state().files.insert(name.into(), content.into());
    }

    pub(crate) fn remove(&self, name: &str) {
        self.state().files.remove(name);
    }

    /// What was asked since the last call.
    pub(crate) fn asked(&self) -> Vec<Request> {
        std::mem::take(&mut self.state().requests)
    }
}

fn serve(stream: &TcpStream, contents: bool, state: &Mutex<State>) {
    let Some(request) = read(stream, contents) else { return };
    let answer = {
        let mut state = state.lock().unwrap();
        let good = good_answer(&request, &state);
        state.requests.push(request.clone());
        (state.mood)(&request, good)
    };
    // A client that hung up has what it wanted.
    drop(write(stream, &request, &answer));
}

fn read(stream: &TcpStream, contents: bool) -> Option<Request> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    let line = first.strip_suffix(" HTTP/1.1")?.to_owned();
    let mut request = Request { contents, line, token: None, start: None };
    for line in lines {
        let line = line.ok()?;
        let Some((name, value)) = line.split_once(':') else { break };
        match name.to_lowercase().as_str() {
            "authorization" => request.token = Some(value.trim().to_owned()),
            "range" => {
                let start = value.trim().strip_prefix("bytes=")?.strip_suffix('-')?;
                request.start = start.parse().ok();
            }
            _ => {}
        }
    }
    Some(request)
}

fn write(mut stream: &TcpStream, request: &Request, answer: &Answer) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {} Said\r\nConnection: close\r\n", answer.status);
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{head}\r\n").as_bytes())?;
    if request.line.starts_with("GET ") {
        let end = answer.cut.unwrap_or(answer.body.len()).min(answer.body.len());
        stream.write_all(&answer.body[..end])?;
    }
    stream.flush()
}

fn good_answer(request: &Request, state: &State) -> Answer {
    let path = request.line.split_once(' ').unwrap().1;
    if let Some(name) = path.strip_prefix("/contents/") {
        return content(&state.files[name], request.start);
    }
    let revision = path
        .strip_prefix(&format!("/api/models/{MODEL}/revision/"))
        .or_else(|| path.strip_prefix(&format!("/api/datasets/{DATASET}/revision/")));
    if let Some(revision) = revision {
        return if ["main", "v1", "refs%2Fpr%2F1", COMMIT].contains(&revision) {
            Answer::new(200, listing(state.files.keys()))
        } else {
            Answer::refusal(404, "RevisionNotFound")
        };
    }
    let name = path
        .strip_prefix(&format!("/{MODEL}/resolve/{COMMIT}/"))
        .or_else(|| path.strip_prefix(&format!("/datasets/{DATASET}/resolve/{COMMIT}/")));
    let Some(name) = name else {
        let status = if request.token.is_some() { 404 } else { 401 };
        return Answer::refusal(status, "RepoNotFound");
    };
    let Some(bytes) = state.files.get(name) else {
        return Answer::refusal(404, "EntryNotFound");
    };
    let digest = sha256(bytes);
    if [".safetensors", ".bin", ".parquet"].iter().any(|end| name.ends_with(end)) {
        return Answer::new(302, "")
            .with("Location", format!("{}/contents/{name}", state.contents))
            .with("ETag", "\"an-etag-of-the-pointer\"")
            .with("X-Linked-Etag", format!("\"{digest}\""))
            .with("X-Linked-Size", bytes.len())
            .with("X-Repo-Commit", COMMIT);
    }
    content(bytes, request.start)
        .with("ETag", format!("W/\"{}\"", &digest[..40]))
        .with("X-Repo-Commit", COMMIT)
}

fn content(bytes: &[u8], start: Option<usize>) -> Answer {
    match start {
        None => Answer::new(200, bytes),
        Some(start) => {
            let (last, all) = (bytes.len() - 1, bytes.len());
            Answer::new(206, &bytes[start..])
                .with("Content-Range", format!("bytes {start}-{last}/{all}"))
        }
    }
}

/// What the hub says of a revision with these files.
pub(crate) fn listing<'a>(names: impl IntoIterator<Item = &'a String>) -> Vec<u8> {
    let siblings: Vec<_> =
        names.into_iter().map(|name| serde_json::json!({"rfilename": name})).collect();
    serde_json::json!({"id": MODEL, "sha": COMMIT, "private": false, "siblings": siblings})
        .to_string()
        .into_bytes()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
