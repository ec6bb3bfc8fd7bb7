//! Arrow: a stream of messages, or a file, which is a stream between two marks.

use super::{Fault, Rows};
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::{RecordBatch, root_as_message};

/// What a file begins and ends with.
const MARK: &[u8] = b"ARROW1";
/// Bytes before the stream in a file: the mark, filled up.
const HEAD: usize = 8;

/// What a message begins with since version 0.15 of the format.
const CONTINUES: [u8; 4] = [0xff; 4];

/// Reads all batches. Arrays are views into the bytes, and checked before they are used.
pub(super) fn read(bytes: &[u8], rows: &mut Rows) -> Result<(), Fault> {
    let is_file = bytes.starts_with(MARK);
    if is_file && !bytes.get(HEAD..).is_some_and(|rest| rest.ends_with(MARK)) {
        return Err("it does not end as it begins, so it is not whole".to_owned().into());
    }
    let stream = if is_file { &bytes[HEAD..] } else { bytes };
    check_messages(stream)?;
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

/// Whether all that messages point to lies in their own bodies: the decoder takes it for granted.
fn check_messages(stream: &[u8]) -> Result<(), String> {
    let mut rest = stream;
    loop {
        if let Some(behind) = rest.strip_prefix(&CONTINUES) {
            rest = behind;
        }
        let Some((length, behind)) = rest.split_first_chunk::<4>() else { break };
        let length = u32::from_le_bytes(*length) as usize;
        if length == 0 {
            break;
        }
        let cut = "it ends in the middle of a message";
        let (header, behind) = behind.split_at_checked(length).ok_or(cut)?;
        let message = root_as_message(header).map_err(|error| format!("a message: {error}"))?;
        let body =
            usize::try_from(message.bodyLength()).map_err(|_| "a body of less than nothing")?;
        rest = behind.get(body..).ok_or(cut)?;
        let dictionary = message.header_as_dictionary_batch();
        let batches = [message.header_as_record_batch(), dictionary.and_then(|d| d.data())];
        for batch in batches.into_iter().flatten() {
            check_batch(batch, body)?;
        }
    }
    Ok(())
}

/// Whether the parts of a batch lie in a body of so many bytes, and its columns count rows.
fn check_batch(batch: RecordBatch<'_>, body: usize) -> Result<(), String> {
    for buffer in batch.buffers().into_iter().flatten() {
        let end = buffer.offset().checked_add(buffer.length());
        let is_inside =
            end.and_then(|end| usize::try_from(end).ok()).is_some_and(|end| end <= body);
        if buffer.offset() < 0 || buffer.length() < 0 || !is_inside {
            return Err("a batch points outside of its bytes".to_owned());
        }
    }
    let counts = |node: &arrow_ipc::FieldNode| {
        node.length() >= 0 && (0..=node.length()).contains(&node.null_count())
    };
    match batch.length() >= 0 && batch.nodes().into_iter().flatten().all(counts) {
        true => Ok(()),
        false => Err("a batch counts its rows wrongly".to_owned()),
    }
}
