//! The fields of a SentencePiece model that determine ids.

use super::protobuf::{Fault, Message};

/// Longest piece in bytes. Real ones have a few dozen; the library's tries are as deep as pieces
/// are long and are dropped recursively.
pub(in crate::tokenizer) const LONGEST_PIECE: usize = 1024;

/// Type of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    pub(super) text: String,
    pub(super) score: f32,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Unigram,
    Bpe,
    Word,
    Char,
}

/// A SentencePiece model; absent fields have the defaults of the format.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Proto {
    pub(super) pieces: Vec<Piece>,
    pub(super) algorithm: Algorithm,
    pub(super) byte_fallback: bool,
    pub(super) unk_id: i64,
    pub(super) bos_id: i64,
    pub(super) eos_id: i64,
    pub(super) unk_piece: String,
    pub(super) bos_piece: String,
    pub(super) eos_piece: String,
    pub(super) whitespace_as_suffix: bool,
    pub(super) normalizer: Normalizer,
}

/// Normalisation before the text is split.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Normalizer {
    pub(super) charsmap: Vec<u8>,
    pub(super) add_dummy_prefix: bool,
    pub(super) remove_extra_whitespaces: bool,
    pub(super) escape_whitespaces: bool,
}

impl Proto {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        let mut proto = Self {
            pieces: Vec::new(),
            algorithm: Algorithm::Unigram,
            byte_fallback: false,
            unk_id: 0,
            bos_id: 1,
            eos_id: 2,
            unk_piece: "<unk>".into(),
            bos_piece: "<s>".into(),
            eos_piece: "</s>".into(),
            whitespace_as_suffix: false,
            normalizer: Normalizer {
                charsmap: Vec::new(),
                add_dummy_prefix: true,
                remove_extra_whitespaces: true,
                escape_whitespaces: true,
            },
        };
        let mut message = Message::new(bytes);
        while let Some(field) = message.next()? {
            match field.number {
                1 => proto.pieces.push(piece(field.message()?)?),
                2 => proto.read_trainer(field.message()?)?,
                3 => proto.normalizer.read(field.message()?)?,
                _ => {}
            }
        }
        Ok(proto)
    }

    fn read_trainer(&mut self, mut message: Message<'_>) -> Result<(), Fault> {
        while let Some(field) = message.next()? {
            match field.number {
                3 => {
                    self.algorithm = match field.number_value()? {
                        1 => Algorithm::Unigram,
                        2 => Algorithm::Bpe,
                        3 => Algorithm::Word,
                        4 => Algorithm::Char,
                        other => {
                            return Err(field.fault(format!("model type {other}"), "1 to 4"));
                        }
                    }
                }
                24 => self.whitespace_as_suffix = field.truth()?,
                35 => self.byte_fallback = field.truth()?,
                40 => self.unk_id = field.signed()?,
                41 => self.bos_id = field.signed()?,
                42 => self.eos_id = field.signed()?,
                45 => self.unk_piece = field.text()?,
                46 => self.bos_piece = field.text()?,
                47 => self.eos_piece = field.text()?,
                _ => {}
            }
        }
        Ok(())
    }
}

impl Normalizer {
    fn read(&mut self, mut message: Message<'_>) -> Result<(), Fault> {
        while let Some(field) = message.next()? {
            match field.number {
                2 => self.charsmap = field.message()?.bytes().to_vec(),
                3 => self.add_dummy_prefix = field.truth()?,
                4 => self.remove_extra_whitespaces = field.truth()?,
                5 => self.escape_whitespaces = field.truth()?,
                _ => {}
            }
        }
        Ok(())
    }
}

fn piece(mut message: Message<'_>) -> Result<Piece, Fault> {
    let mut piece = Piece { text: String::new(), score: 0.0, kind: Kind::Normal };
    while let Some(field) = message.next()? {
        match field.number {
            1 => piece.text = field.text()?,
            2 => {
                piece.score = field.float()?;
                if !piece.score.is_finite() {
                    return Err(field.fault(format!("score {}", piece.score), "a finite number"));
                }
            }
            3 => {
                piece.kind = match field.number_value()? {
                    1 => Kind::Normal,
                    2 => Kind::Unknown,
                    3 => Kind::Control,
                    4 => Kind::UserDefined,
                    5 => Kind::Unused,
                    6 => Kind::Byte,
                    other => return Err(field.fault(format!("piece type {other}"), "1 to 6")),
                }
            }
            _ => {}
        }
    }
    Ok(piece)
}
