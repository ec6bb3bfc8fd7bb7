//! `linwright generate`: continuations of prompts.

use super::{Pieces, print_report};
use crate::args::Shared;
use crate::console::Console;
use crate::face::Face;
use crate::failure::Failure;
use crate::interrupt;
use clap::Args;
use linwright::jobs::Generate;
use linwright::run::Monitor;

/// Generate continuations of prompts, greedily unless the model or an option says otherwise.
#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    #[command(flatten)]
    job: Face<Generate>,
}

pub(crate) fn run(args: &GenerateArgs, shared: &Shared) -> Result<(), Failure> {
    let mut console = Console::new(shared);
    let prompted = args.job.open(&mut console.session())?;
    console.finish();
    let texts = &prompted.texts;
    let streams = texts.len() == 1 && !shared.json;
    let mut shown = Pieces::default();
    let mut on_text = |_, piece: &str| !streams || shown.write(piece);
    let written = prompted.write(&mut on_text, &interrupt::is_requested);
    if streams {
        if written.is_ok() {
            shown.write("\n");
        }
        // Lost output is the cause of the early end, so it is reported first.
        shown.finish()?;
        return written.map(drop);
    }
    let written = written?;
    if shared.json {
        return print_report(&args.job.result(&prompted, &written));
    }
    for (text, written) in texts.iter().zip(&written) {
        super::print(&format!("{text}{}\n", written.text))?;
    }
    Ok(())
}
