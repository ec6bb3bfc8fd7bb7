//! The forms of a saved model.

use crate::jobs::kit::Name;
use crate::jobs::kit::named::{NameList, named};
use linwright_model::checkpoint::export::ExportForm;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Form of a saved model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SavedForm {
    /// The form that most runtimes load and that is no larger than necessary.
    #[default]
    Auto,
    /// A whole model in this form.
    Whole(ExportForm),
    /// Adapters of PEFT on a base model.
    Lora,
}

impl SavedForm {
    /// All forms.
    pub const ALL: [Self; 8] = [
        Self::Auto,
        Self::Whole(ExportForm::Dense),
        Self::Whole(ExportForm::Factored),
        Self::Whole(ExportForm::Width),
        Self::Whole(ExportForm::Blocks),
        Self::Lora,
        Self::Whole(ExportForm::Native),
        Self::Whole(ExportForm::Gguf),
    ];
    /// The forms of a job that edits a model: directories with `config.json`.
    pub const EDITED: [Self; 6] = [
        Self::Auto,
        Self::Whole(ExportForm::Dense),
        Self::Whole(ExportForm::Factored),
        Self::Whole(ExportForm::Width),
        Self::Whole(ExportForm::Blocks),
        Self::Whole(ExportForm::Native),
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Whole(form) => form.name(),
            Self::Lora => "lora",
        }
    }

    /// The requested form; none for `auto`.
    #[must_use]
    pub fn whole(self) -> Option<ExportForm> {
        match self {
            Self::Whole(form) => Some(form),
            Self::Auto | Self::Lora => None,
        }
    }

    /// Whether every operator is saved as an ordinary weight.
    #[must_use]
    pub fn is_dense(self) -> bool {
        self.whole().is_some_and(ExportForm::is_dense)
    }
}

impl Serialize for SavedForm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for SavedForm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let form = Self::ALL.into_iter().find(|form| form.name() == name);
        form.ok_or_else(|| serde::de::Error::custom(format!("there is no form {name}")))
    }
}

named! {
    SavedForm;
}

/// The forms of a job that edits a model: directories with `config.json`.
pub(crate) struct EditedForms;

impl NameList for EditedForms {
    fn names() -> Vec<Name> {
        SavedForm::EDITED.iter().map(|form| Name::new(form.name())).collect()
    }
}
