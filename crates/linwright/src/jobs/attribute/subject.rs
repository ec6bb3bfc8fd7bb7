//! A model whose examples are attributed: a language model, or a small network.

use super::examples::Data;
use crate::jobs::kit::source::{OpenModel, open_model};
use crate::jobs::kit::{Failure, Session};
use linwright_attribute::{Classified, Examples};
use linwright_nets::{Net, OpenedNet};
use linwright_ops::Differentiable;
use linwright_run::Monitor;
use std::path::Path;

/// A model in memory.
pub(in crate::jobs) enum Subject {
    /// A model that continues texts, or fills in masked tokens.
    Text(Box<OpenModel>),
    /// A network with classes.
    Net(Box<OpenedNet>),
}

/// Work on a network and its examples, of any kind.
pub(in crate::jobs) trait Work {
    /// Its result.
    type Output;

    /// Does it.
    ///
    /// # Errors
    /// [`Failure`].
    fn run<N: Differentiable>(
        self,
        network: &N,
        examples: &dyn Examples<N::Input>,
    ) -> Result<Self::Output, Failure>;
}

impl Subject {
    /// Opens a model; one without a loss is refused.
    ///
    /// # Errors
    /// [`Failure`] if it cannot be opened.
    pub(in crate::jobs) fn open(name: &str, session: &mut Session<'_>) -> Result<Self, Failure> {
        let path = Path::new(name);
        let is_description = path.is_file()
            && path.extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json");
        if Net::is_saved_at(path) || is_description {
            session.step(&format!("loading {name}"));
            return Ok(Self::Net(Box::new(Net::open(path)?)));
        }
        let model = open_model(name, session)?;
        let (decoder, tokenizer) = (&model.loaded.decoder, model.tokenizer()?);
        if !decoder.config().is_causal() {
            let lacking = match (decoder.has_head(), tokenizer.mask()) {
                (false, _) => "without the head of a masked language model",
                (true, None) => "whose tokenizer has no mask token",
                (true, Some(_)) => return Ok(Self::Text(Box::new(model))),
            };
            let message = format!("{name} is an encoder {lacking}: there is no loss to attribute");
            return Err(Failure::usage(message).hint(
                "give a model that continues texts, an encoder with the head that fills in masks, or a small network with classes",
            ));
        }
        if !decoder.has_head() {
            let message = format!("{name} has no head: there is no loss to attribute");
            return Err(Failure::usage(message).hint("give a model that continues texts"));
        }
        Ok(Self::Text(Box::new(model)))
    }

    /// Names its weights.
    pub(in crate::jobs) fn hash(&self) -> &str {
        match self {
            Self::Text(model) => &model.loaded.hash,
            Self::Net(net) => &net.hash,
        }
    }

    /// Does something with the network and examples of its kind.
    ///
    /// # Errors
    /// Those of the work.
    ///
    /// # Panics
    /// If the examples are those of another kind of model.
    pub(in crate::jobs) fn with<W: Work>(
        &self,
        data: &Data,
        work: W,
    ) -> Result<W::Output, Failure> {
        match (self, data) {
            (Self::Text(model), Data::Texts(texts)) => {
                work.run(&model.loaded.decoder, &texts.documents)
            }
            (Self::Net(net), Data::Images(images)) => {
                work.run(&net.net, &Classified::new(&images.labelled)?)
            }
            _ => unreachable!("examples are read for their model"),
        }
    }
}
