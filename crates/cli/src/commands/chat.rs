//! `linwright chat`: a conversation with a model.

use super::Pieces;
use crate::args::Shared;
use crate::console::Console;
use crate::face::Face;
use crate::failure::Failure;
use crate::interrupt;
use clap::Args;
use linwright::jobs::{ChatTemplateOptions, SamplingOptions, Writer};
use linwright::model::tokenizer::chat::{ChatOptions, Date, Message};
use linwright::run::Monitor;
use std::io::{BufRead, IsTerminal};

/// Chat with a model that has a chat template: each line of standard input is one message.
#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// A checkpoint directory, a `.gguf` file, or `owner/name[@revision]` on the hub.
    model: String,
    /// System prompt: the first message, with the role `system`.
    #[arg(long)]
    system: Option<String>,
    #[command(flatten)]
    template: Face<ChatTemplateOptions>,
    #[command(flatten)]
    sampling: Face<SamplingOptions>,
}

/// The commands of a conversation.
const COMMANDS: &str = "/quit ends the chat, /reset starts a new one";

pub(crate) fn run(args: &ChatArgs, shared: &Shared) -> Result<(), Failure> {
    let mut console = Console::new(shared);
    let writer = args.sampling.writer(&args.model, &mut console.session())?;
    if !writer.tokenizer.has_chat() {
        return Err(Failure::general(format!(
            "{} has no chat template; use `linwright generate`, or add chat_template.jinja",
            args.model
        )));
    }
    console.finish();
    let terminal = std::io::stdin().is_terminal();
    if terminal {
        console.note(COMMANDS);
    }
    let start = || args.system.iter().map(|text| Message::new("system", text.as_str())).collect();
    let mut messages: Vec<Message> = start();
    let mut options = args.template.chat();
    if options.date.is_none() && writer.tokenizer.chat_asks_date() {
        // Every answer of a conversation has the same.
        let date = match writer.tokenizer.chat_asks_time() {
            true => Date::now(),
            false => Date::today(),
        };
        console.note(&format!("note: the chat template asks for the date and gets {date}"));
        options.date = Some(date);
    }
    if let Some(note) = args.template.midnight_note(&writer.tokenizer) {
        console.note(&note);
    }
    let mut lines = std::io::stdin().lock().lines();
    let mut shown = Pieces::default();
    loop {
        // The output is closed: stop.
        if terminal && !shown.write("> ") {
            return shown.finish();
        }
        let Some(line) = lines.next() else { return shown.finish() };
        let line = line.map_err(|error| Failure::io("standard input", &error))?;
        match line.trim() {
            "" => {}
            "/quit" | "/exit" => return shown.finish(),
            "/reset" => messages = start(),
            _ => {
                messages.push(Message::new("user", line));
                let reply = answer(&writer, &messages, &options, &mut shown)?;
                if !shown.write("\n") {
                    return shown.finish();
                }
                messages.push(Message::new("assistant", reply));
            }
        }
    }
}

fn answer(
    writer: &Writer,
    messages: &[Message],
    options: &ChatOptions,
    shown: &mut Pieces,
) -> Result<String, Failure> {
    let text = writer.tokenizer.chat_with(messages, options)?;
    // The template writes the special tokens, including the first.
    let prompt = writer.tokenizer.encode(&text, false)?;
    let mut on_text = |_, piece: &str| shown.write(piece);
    let mut written = writer.write(&[prompt], &mut on_text, &interrupt::is_requested)?;
    Ok(written.pop().map(|one| one.text).unwrap_or_default())
}
