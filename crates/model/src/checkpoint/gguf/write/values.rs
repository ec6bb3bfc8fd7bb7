//! Encoding of metadata keys and values.

use linwright_files::gguf::Kind;

/// Encoded metadata in the order of writing.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys {
    count: u64,
    bytes: Vec<u8>,
}

pub(super) fn append_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

impl Keys {
    fn start(&mut self, key: &str, kind: Kind) {
        self.count += 1;
        append_text(&mut self.bytes, key);
        self.bytes.extend((kind as u32).to_le_bytes());
    }

    pub(super) fn text(&mut self, key: &str, text: &str) {
        self.start(key, Kind::Text);
        append_text(&mut self.bytes, text);
    }

    pub(super) fn flag(&mut self, key: &str, flag: bool) {
        self.start(key, Kind::Bool);
        self.bytes.push(u8::from(flag));
    }

    pub(super) fn number(&mut self, key: &str, number: f64) {
        self.start(key, Kind::F32);
        self.bytes.extend((number as f32).to_le_bytes());
    }

    pub(super) fn size(&mut self, key: &str, size: u32) {
        self.start(key, Kind::U32);
        self.bytes.extend(size.to_le_bytes());
    }

    fn array(&mut self, key: &str, kind: Kind, count: usize) {
        self.start(key, Kind::Array);
        self.bytes.extend((kind as u32).to_le_bytes());
        self.bytes.extend((count as u64).to_le_bytes());
    }

    pub(super) fn texts(&mut self, key: &str, texts: &[String]) {
        self.array(key, Kind::Text, texts.len());
        texts.iter().for_each(|text| append_text(&mut self.bytes, text));
    }

    pub(super) fn numbers(&mut self, key: &str, numbers: &[f32]) {
        self.array(key, Kind::F32, numbers.len());
        numbers.iter().for_each(|number| self.bytes.extend(number.to_le_bytes()));
    }

    pub(super) fn kinds(&mut self, key: &str, kinds: &[u8]) {
        self.array(key, Kind::I32, kinds.len());
        kinds.iter().for_each(|kind| self.bytes.extend(i32::from(*kind).to_le_bytes()));
    }

    /// Appends the number of keys, then the keys.
    pub(super) fn append_to(&self, out: &mut Vec<u8>) {
        out.extend(self.count.to_le_bytes());
        out.extend(&self.bytes);
    }
}
