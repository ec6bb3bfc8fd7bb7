//! Captures the activations of one linear layer and fits low-rank operators of several sizes to it.
//! `cargo run --example 02_fit_one_layer -- MODEL_DIR TEXT_FILE`
#![allow(clippy::print_stdout, reason = "an example shows what it found")]

use linwright::compress::methods::LowRankMethod;
use linwright::compress::pipeline::{Context, apply};
use linwright::compress::{Edit, MethodSpec, Plan, Size, SlotSet};
use linwright::data::Corpus;
use linwright::model::checkpoint::load;
use linwright::model::tokenizer::Bos;
use linwright::model::{Split, Windows};
use linwright::ops::Sites;
use linwright::run::Silent;
use std::error::Error;
use std::fmt::Write;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(model), Some(text)) = (args.next(), args.next()) else {
        return Err("expected a model directory and a text file".into());
    };
    print!("{}", fit(Path::new(&model), Path::new(&text), 512)?);
    Ok(())
}

/// Errors of the first linear layer's fits, on activations that no fit saw.
pub(crate) fn fit(model: &Path, text: &Path, window: usize) -> Result<String, Box<dyn Error>> {
    let loaded = load(model)?;
    let tokenizer = loaded.tokenizer.as_ref().ok_or("the model has no tokenizer")?;
    let corpus = Corpus::open(text, None)?;
    let documents = corpus.documents.iter().map(|document| (document.line, &*document.text));
    let (bos, split) = (Bos::Auto, Split::Contiguous);
    let windows = Windows::encode(documents, tokenizer, bos, window, 8192, split)?;
    let role = loaded.decoder.slots()[0].role();
    let context = Context::new(&loaded.hash);
    let mut report = String::new();
    for keep in [0.25, 0.5, 0.75] {
        let method = MethodSpec::LowRank(LowRankMethod::default());
        let sites = SlotSet::with_roles(&[role], Some(vec![0]));
        let edit = Edit { sites, method, size: Some(Size::Keep(keep)), heals: false };
        let plan = Plan { edits: vec![edit], seed: 0 };
        // The original model stays as it is; the edited copy shares its other weights.
        let edited = apply(&loaded.decoder, Some(&windows), &plan, &context, &mut Silent)?;
        let site = &edited.sites[0];
        writeln!(report, "{} keep {keep}: error {:.4}", site.site, site.fit.relative_error)?;
    }
    Ok(report)
}
