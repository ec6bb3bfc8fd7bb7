//! `linwright man`: the help of every command as manual pages.

use super::{print, print_json};
use crate::args::Shared;
use crate::command_line::Cli;
use crate::console::Console;
use crate::failure::Failure;
use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;
use linwright::jobs::outputs;
use linwright::run::atomic::AtomicDir;
use serde_json::json;
use std::path::PathBuf;

/// Write manual pages: linwright.1, linwright-compress.1 and so on, one for each command.
///
/// Written to the folder `man1` of a directory in MANPATH, `man linwright-compress` shows them.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Output directory.
    #[arg(short, long)]
    output: PathBuf,
    /// Replace the directory if it exists.
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &ManArgs, shared: &Shared) -> Result<(), Failure> {
    outputs::directory(&args.output, args.force, &[], &Console::new(shared).session())?;
    let mut folder = AtomicDir::create(&args.output, args.force)?;
    let mut top = Cli::command().disable_help_subcommand(true);
    // Builds the command, which joins names of subcommands and propagates shared options.
    top.build();
    let mut pages = Vec::new();
    write_pages(&top, &mut folder, &mut pages)?;
    folder.commit()?;
    if shared.json {
        return print_json(&json!({ "output": args.output, "pages": pages }));
    }
    print(&format!("wrote {} ({} pages)", args.output.display(), pages.len()))
}

/// Writes the pages of a command and of all its subcommands.
fn write_pages(
    command: &Command,
    folder: &mut AtomicDir,
    pages: &mut Vec<String>,
) -> Result<(), Failure> {
    let page = Man::new(command.clone());
    let name = page.get_filename();
    folder.write(&name, |out| page.render(out))?;
    pages.push(name);
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    below.into_iter().try_for_each(|below| write_pages(below, folder, pages))
}
