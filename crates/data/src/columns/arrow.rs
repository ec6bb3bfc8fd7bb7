//! Arrow: a stream of messages, or a file, which is a stream between two magic numbers.

use super::{Fault, Rows};
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::{RecordBatch, root_as_message};

/// Magic number at both ends of a file.
const MARK: &[u8] = b"ARROW1";
/// Bytes before the stream in a file: the magic number, padded.
const HEAD: usize = 8;

/// First bytes of a message since version 0.15 of the format.
const CONTINUES: [u8; 4] = [0xff; 4];

/// Reads all batches. Arrays are views into the bytes, and checked before they are used.
pub(super) fn read(bytes: &[u8], rows: &mut Rows) -> Result<(), Fault> {
    let is_file = bytes.starts_with(MARK);
    if is_file && !bytes.get(HEAD..).is_some_and(|rest| rest.ends_with(MARK)) {
        return Err("it does not end with its magic number, so it is truncated".to_owned().into());
    }
    let stream = if is_file { &bytes[HEAD..] } else { bytes };
    check_messages(stream)?;
    let mut rest = Buffer::from(stream);
    let mut decoder = StreamDecoder::new();
    while !rest.is_empty() {
        match decoder.decode(&mut rest) {
            Ok(Some(batch)) => rows.extend(&batch)?,
            Ok(None) => break,
            // After the end of its stream, a file has a footer.
            Err(_) if is_file && decoder.finish().is_ok() => break,
            Err(error) => return Err(error.to_string().into()),
        }
    }
    if decoder.schema().is_none() {
        return Err("it ends before its schema".to_owned().into());
    }
    decoder.finish().map_err(|_| "it ends in the middle of a batch".to_owned())?;
    Ok(())
}

/// Checks that all offsets of messages are within their bodies, which the decoder assumes.
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
            usize::try_from(message.bodyLength()).map_err(|_| "a body of negative length")?;
        rest = behind.get(body..).ok_or(cut)?;
        let dictionary = message.header_as_dictionary_batch();
        let batches = [message.header_as_record_batch(), dictionary.and_then(|d| d.data())];
        for batch in batches.into_iter().flatten() {
            check_batch(batch, body)?;
        }
    }
    Ok(())
}

/// Checks that the buffers of a batch are within its body, and that its columns have equal lengths.
fn check_batch(batch: RecordBatch<'_>, body: usize) -> Result<(), String> {
    for buffer in batch.buffers().into_iter().flatten() {
        let end = buffer.offset().checked_add(buffer.length());
        let is_inside =
            end.and_then(|end| usize::try_from(end).ok()).is_some_and(|end| end <= body);
        if buffer.offset() < 0 || buffer.length() < 0 || !is_inside {
            return Err("a buffer of a batch is outside of its body".to_owned());
        }
    }
    let counts = |node: &arrow_ipc::FieldNode| {
        node.length() >= 0 && (0..=node.length()).contains(&node.null_count())
    };
    match batch.length() >= 0 && batch.nodes().into_iter().flatten().all(counts) {
        true => Ok(()),
        false => Err("the columns of a batch have different lengths".to_owned()),
    }
}
