//! Arrow: a stream of messages, or a file, which is a stream between two marks.

use super::{Fault, Rows};
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;

/// What a file begins and ends with.
const MARK: &[u8] = b"ARROW1";
/// Bytes before the stream in a file: the mark, filled up.
const HEAD: usize = 8;

/// Reads all batches. Arrays are views into the bytes, and checked before they are used.
pub(super) fn read(bytes: &[u8], rows: &mut Rows) -> Result<(), Fault> {
    let is_file = bytes.starts_with(MARK);
    if is_file && !bytes.get(HEAD..).is_some_and(|rest| rest.ends_with(MARK)) {
        return Err("it does not end as it begins, so it is not whole".to_owned().into());
    }
    let stream = if is_file { &bytes[HEAD..] } else { bytes };
    let mut rest = Buffer::from(stream);
    let mut decoder = StreamDecoder::new();
    while !rest.is_empty() {
        match decoder.decode(&mut rest) {
            Ok(Some(batch)) => rows.extend(&batch)?,
            Ok(None) => break,
            // Behind the end of its stream a file has a table of contents.
            Err(_) if is_file && decoder.finish().is_ok() => break,
            Err(error) => return Err(error.to_string().into()),
        }
    }
    if decoder.schema().is_none() {
        return Err("it ends before its columns are named".to_owned().into());
    }
    decoder.finish().map_err(|_| "it ends in the middle of a batch".to_owned())?;
    Ok(())
}
