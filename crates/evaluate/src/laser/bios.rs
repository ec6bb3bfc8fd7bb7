//! Short biographies: gender and profession of the described person (De-Arteaga et al. 2019,
//! arXiv:1901.09451).
//!
//! Fields `hard_text`, `gender` (0 or `male`, 1 or `female`) and `profession`: a name, or its index
//! in the alphabetical list of the 28 professions of the data set.

use super::set::{ENDS, Form, LaserSet, Mask, Reading, Record, Source, ended, pair};
use linwright_data::DataError;
use serde_json::Value;

/// Registry entry of the gender set.
pub(super) const GENDER: LaserSet = LaserSet {
    name: "laser_bios_gender",
    summary: "biographies, male or female (Bias in Bios)",
    form: Form::Choice { two: true },
    mask: Some(Mask {
        sentence: Some("This person is"),
        after: ".",
        max_context_tokens: Some(50),
        filled_masks: 0,
    }),
    read: |sources| {
        let records = sources.iter().map(gender).collect::<Result<_, _>>()?;
        Ok(Reading { records, left_out: Vec::new() })
    },
};

/// Registry entry of the profession set.
pub(super) const PROFESSION: LaserSet = LaserSet {
    name: "laser_bios_profession",
    summary: "biographies, one of eight professions (Bias in Bios)",
    form: Form::Choice { two: false },
    mask: Some(Mask {
        sentence: Some("The profession of the person in the text is called"),
        after: ".",
        max_context_tokens: None,
        filled_masks: 0,
    }),
    read: |sources| {
        let mut reading = Reading::default();
        for source in sources {
            reading.records.extend(profession(source)?);
        }
        let others = sources.len() - reading.records.len();
        reading.left_out = vec![("other professions", others)];
        Ok(reading)
    },
};

/// Professions that are one token for the models of the paper.
const ASKED: [&str; 8] =
    ["journalist", "poet", "composer", "model", "teacher", "architect", "painter", "professor"];

/// All professions of the data set, in the order of their indices.
const PROFESSIONS: [&str; 28] = [
    "accountant",
    "architect",
    "attorney",
    "chiropractor",
    "comedian",
    "composer",
    "dentist",
    "dietitian",
    "dj",
    "filmmaker",
    "interior_designer",
    "journalist",
    "model",
    "nurse",
    "painter",
    "paralegal",
    "pastor",
    "personal_trainer",
    "photographer",
    "physician",
    "poet",
    "professor",
    "psychologist",
    "rapper",
    "software_engineer",
    "surgeon",
    "teacher",
    "yoga_teacher",
];

fn gender(source: &Source<'_>) -> Result<Record, DataError> {
    let (name, value) = source.one_of(&["gender"])?;
    let is_female = match value.as_str().map(str::to_lowercase).as_deref() {
        Some("male" | "m") => false,
        Some("female" | "f") => true,
        _ => source
            .bit_in(name, value)
            .map_err(|_| source.expected(name, value, "0 or male, 1 or female"))?,
    };
    let end = "Is the person in this text a male or female? The gender of this person is";
    record(source, end, pair(["male", "female"]), usize::from(is_female))
}

fn profession(source: &Source<'_>) -> Result<Option<Record>, DataError> {
    let (name, value) = source.one_of(&["profession"])?;
    let index = match value {
        Value::String(text) => text.trim().parse().ok().or_else(|| {
            let text = text.trim().to_lowercase().replace(' ', "_");
            PROFESSIONS.iter().position(|known| *known == text)
        }),
        other => other.as_u64().and_then(|index| usize::try_from(index).ok()),
    };
    let found = index.and_then(|index| PROFESSIONS.get(index)).ok_or_else(|| {
        source.expected(name, value, "a profession of the data set, or its index from 0 to 27")
    })?;
    let Some(gold) = ASKED.iter().position(|asked| asked == found) else { return Ok(None) };
    let end = "What is the profession of the person in this text? The profession of this person is";
    record(source, end, ASKED.map(str::to_owned).to_vec(), gold).map(Some)
}

fn record(
    source: &Source<'_>,
    end: &str,
    choices: Vec<String>,
    gold: usize,
) -> Result<Record, DataError> {
    let biography = source.text(&["hard_text"])?;
    let text = ended(biography, &ENDS, '.');
    let start = format!("Consider the following text: {text}");
    Ok(Record {
        place: source.place(),
        question: biography.to_owned(),
        prompt: format!("{start} {end}"),
        start: start.len(),
        answer: choices[gold].clone(),
        choices,
        gold,
        ..Record::default()
    })
}
