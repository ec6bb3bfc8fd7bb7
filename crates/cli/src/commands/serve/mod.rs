//! `linwright serve`: a local HTTP server for OpenAI's completions API.
//!
//! One thread accepts connections, one runs the model ([`worker`]), and each connection has a
//! thread that reads requests ([`http`]), parses them ([`protocol`]) and writes responses
//! ([`answer`]).

mod answer;
mod client;
mod error;
mod fields;
mod http;
mod protocol;
mod stop;
mod worker;

use crate::args::{Shared, one_of};
use crate::console::Console;
use crate::face::Face;
use crate::failure::Failure;
use crate::interrupt;
use answer::TokenTexts;
use clap::Args;
use error::ApiError;
use http::{Limits, Link};
use linwright::evaluate::Bos;
use linwright::jobs::source::open_model_as;
use linwright::jobs::{BatchSize, ChatTemplateOptions, PrecisionOptions, ServeOptions, end_tokens};
use linwright::model::Transformer;
use linwright::model::checkpoint::LoadedModel;
use linwright::model::tokenizer::Tokenizer;
use linwright::run::Monitor;
use protocol::Rules;
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::{Builder, Scope};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use stop::{GRACE, Stop};
use worker::Queue;

/// Connections beyond the limit that stay open just long enough to be refused.
const TURNED_AWAY: usize = 16;
/// Interval at which the server checks whether it should stop.
const GLANCE: Duration = Duration::from_millis(50);
/// Fields of sampling that each request has for itself.
const SAMPLING: [&str; 7] =
    ["do_sample", "max_new_tokens", "temperature", "top_k", "top_p", "min_p", "repetition_penalty"];
/// Pause after a connection could not be accepted, for example because of too many open files.
const PAUSE: Duration = Duration::from_millis(20);

/// Serve a model over HTTP with OpenAI's completions API, for this machine unless --host says
/// otherwise. Ctrl-C lets running requests finish and stops the server.
///
/// Paths: /v1/completions (with echo and logprobs), /v1/chat/completions, /v1/models, /health.
/// There is no encryption and no password: anyone who reaches the port may use the model.
///
/// Requests are computed in batches, and the batch changes the order of floating-point sums:
/// log-probabilities of equal requests may differ in the sixth decimal place, and two tokens that
/// are equally likely to that precision may swap ranks.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// A checkpoint directory, a `.gguf` file, `pocket` for the built-in model, or
    /// `owner/name[@revision]` on the hub.
    model: String,
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// Port to listen on; 0 chooses a free one, which is printed.
    #[arg(long, default_value_t = 8000)]
    port: u16,
    /// Name of the model in requests [default: MODEL as given].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    options: Face<ServeOptions>,
    /// Batch size in thousands of tokens, over all running requests; `auto` is 4.
    #[arg(short, long, alias = "batch_size", default_value = "auto", value_parser = BatchSize::from_str)]
    batch_size: BatchSize,
    /// Whether text prompts start with the beginning-of-sequence token.
    #[arg(long, default_value = "auto", value_parser = one_of(&Bos::ALL, Bos::name))]
    bos: Bos,
    #[command(flatten)]
    template: Face<ChatTemplateOptions>,
    #[command(flatten)]
    precision: Face<PrecisionOptions>,
}

/// State shared by all connections.
struct Server<'a> {
    decoder: &'a Transformer,
    tokenizer: &'a Tokenizer,
    texts: TokenTexts<'a>,
    end_tokens: Vec<u32>,
    bos: Bos,
    template: &'a ChatTemplateOptions,
    most_tokens: usize,
    name: &'a str,
    created: u64,
    queue: Queue,
    requests: AtomicU64,
    connections: AtomicUsize,
    /// Locked while a body is parsed.
    reading: Mutex<()>,
    /// Locked while a long prompt is tokenized.
    encoding: Mutex<()>,
    /// Bytes of a text that one token may stand for, where that is bounded.
    longest_token: Option<usize>,
    stop: &'a Stop<'a>,
}

impl Server<'_> {
    fn rules(&self) -> Rules<'_> {
        let config = self.decoder.config();
        Rules {
            tokenizer: self.tokenizer,
            bos: self.bos,
            template: self.template,
            end_tokens: &self.end_tokens,
            vocab: config.vocab,
            positions: config.max_positions,
            longest_token: self.longest_token,
            most_tokens: self.most_tokens,
            name: self.name,
        }
    }

    /// The model in the list of models.
    fn description(&self) -> Value {
        json!({
            "id": self.name,
            "object": "model",
            "created": self.created,
            "owned_by": "linwright",
            "max_model_len": self.decoder.config().max_positions,
        })
    }
}

/// Seconds since 1970; 0 on a machine whose clock is before that.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

pub(crate) fn run(args: &ServeArgs, shared: &Shared) -> Result<(), Failure> {
    let mut console = Console::new(shared);
    // First the steps that fail at once.
    let address = SocketAddr::new(args.host, args.port);
    let listener = TcpListener::bind(address).map_err(|error| {
        Failure::io(&format!("cannot listen on {address}"), &error)
            .hint("choose another --port, or 0 for any free port")
    })?;
    let address = listener.local_addr().map_err(|error| Failure::io("the address", &error))?;
    let mut loaded =
        open_model_as(&args.model, args.precision.dtype, &mut console.session())?.loaded;
    let tokenizer = speaker(&args.model, &mut loaded)?;
    tokenizer.first(args.bos)?;
    console.finish();
    let vocab = loaded.decoder.config().vocab;
    let (settings, note) = loaded.source.generation_settings(vocab, &SAMPLING)?;
    if let Some(note) = note {
        console.note(&format!("note: {note}"));
    }
    if let Some(note) = args.template.midnight_note(&tokenizer) {
        console.note(&note);
    }
    let own = settings.end_tokens;
    let stop = Stop::new(&interrupt::is_requested, GRACE);
    let server = Server {
        decoder: &loaded.decoder,
        tokenizer: &tokenizer,
        texts: TokenTexts::new(&tokenizer, vocab),
        end_tokens: end_tokens(own, &loaded, &tokenizer),
        bos: args.bos,
        template: &args.template,
        most_tokens: args.options.limits.tokens,
        name: args.name.as_deref().unwrap_or(&args.model),
        created: now(),
        queue: Queue::new(args.options.limits.waiting),
        requests: AtomicU64::new(0),
        connections: AtomicUsize::new(0),
        reading: Mutex::default(),
        encoding: Mutex::default(),
        longest_token: tokenizer.longest_token(),
        stop: &stop,
    };
    announce(&server, address, shared)?;
    listen(&server, &listener, args)?;
    let requests = server.requests.load(Ordering::Relaxed);
    console.note(&format!("stopped after {requests} requests"));
    Ok(())
}

/// The tokenizer of a model to be served.
fn speaker(model: &str, loaded: &mut LoadedModel) -> Result<Tokenizer, Failure> {
    if !loaded.decoder.has_head() || !loaded.decoder.config().is_causal() {
        return Err(Failure::general(format!(
            "{model} is an encoder, which cannot generate text; give a causal language model"
        )));
    }
    loaded.tokenizer.take().ok_or_else(|| {
        Failure::general(format!(
            "{model} has no tokenizer; put tokenizer.json or tokenizer.model beside config.json"
        ))
    })
}

/// Prints the address of the server on stdout.
fn announce(server: &Server<'_>, address: SocketAddr, shared: &Shared) -> Result<(), Failure> {
    let url = format!("http://{address}/v1");
    match shared.json {
        true => super::print(&json!({ "url": url, "model": server.name }).to_string()),
        false => {
            super::print(&format!("{} is served at {url}; Ctrl-C stops the server", server.name))
        }
    }
}

/// Accepts connections until the server should stop, then waits for the running requests.
fn listen(server: &Server<'_>, listener: &TcpListener, args: &ServeArgs) -> Result<(), Failure> {
    let most = &args.options.limits;
    let limits = Limits { body: most.body, timeout: most.timeout() };
    let own = listener.local_addr().map_err(|error| Failure::io("the address", &error))?;
    let thread = |error| Failure::io("cannot start a thread", &error);
    std::thread::scope(|scope| {
        let model = Builder::new().name("model".into());
        let started = model.spawn_scoped(scope, || {
            worker::work(server.decoder, &server.queue, args.batch_size.tokens());
        });
        started.map_err(thread)?;
        // accept() continues after a signal: a connection of our own ends it.
        let wake = Builder::new().name("wake".into()).spawn_scoped(scope, move || {
            while !server.stop.is_asked() {
                std::thread::sleep(GLANCE);
            }
            server.queue.close();
            let loopback = match own.ip() {
                ip if !ip.is_unspecified() => ip,
                IpAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            };
            // If it cannot be reached, the next client wakes it.
            drop(TcpStream::connect(SocketAddr::new(loopback, own.port())));
        });
        if let Err(error) = wake {
            server.queue.close();
            return Err(thread(error));
        }
        while !server.stop.is_asked() {
            match listener.accept() {
                Ok(_) if server.stop.is_asked() => {}
                Ok((stream, _)) => welcome(server, scope, stream, limits, most.connections),
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
        Ok(())
    })
}

/// Starts a thread for a connection, or refuses it if `most` are open.
fn welcome<'s, 'e>(
    server: &'e Server<'e>,
    scope: &'s Scope<'s, 'e>,
    stream: TcpStream,
    limits: Limits,
    most: usize,
) {
    let open = server.connections.fetch_add(1, Ordering::SeqCst);
    let attend = move || {
        if let Ok(link) = Link::new(stream, limits, server.stop) {
            // A panic ends only this connection.
            let done = catch_unwind(AssertUnwindSafe(|| match open < most {
                true => client::attend(server, link),
                false => {
                    let message = format!("all {most} connections are in use; try again later");
                    client::refuse(link, &ApiError::busy(message));
                }
            }));
            drop(done);
        }
        server.connections.fetch_sub(1, Ordering::SeqCst);
    };
    let started = open < most + TURNED_AWAY
        && Builder::new().name("client".into()).spawn_scoped(scope, attend).is_ok();
    if !started {
        server.connections.fetch_sub(1, Ordering::SeqCst);
    }
}
