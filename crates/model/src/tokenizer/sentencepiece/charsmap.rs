//! Validation of the "precompiled charsmap" of a SentencePiece model.
//!
//! The charsmap is a u32 with the size of a trie, the trie as a double array of u32, and
//! NUL-terminated replacements, which the leaves refer to. The library does not check indices; here
//! every reachable node is visited once, so that no text causes an access out of bounds.

/// Largest size of a replacement in bytes; NFKC has up to 33.
const LONGEST: usize = 64;

/// The first error of a charsmap, if any.
pub(in crate::tokenizer) fn check(bytes: &[u8]) -> Result<(), String> {
    let (size, rest) = bytes.split_at_checked(4).ok_or("fewer than 4 bytes")?;
    let size = u32::from_le_bytes([size[0], size[1], size[2], size[3]]) as usize;
    if size < 4 || !size.is_multiple_of(4) {
        return Err(format!("a trie of {size} bytes, expected a multiple of 4"));
    }
    let (trie, texts) = rest
        .split_at_checked(size)
        .ok_or_else(|| format!("a trie of {size} bytes in a table of {}", bytes.len()))?;
    let texts = std::str::from_utf8(texts).map_err(|_| "replacements that are not UTF-8")?;
    let units: Vec<u32> =
        trie.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    walk(&units, texts)
}

/// Visits every node. A node is the offset from which the next byte is looked up.
fn walk(units: &[u32], texts: &str) -> Result<(), String> {
    let mut seen = vec![false; units.len()];
    let mut waiting = vec![offset(units[0])];
    while let Some(node) = waiting.pop() {
        // All 255 next places differ from the node in the low eight bits.
        if node | 255 >= units.len() {
            return Err(format!("a node at {node} in a trie of {} units", units.len()));
        }
        if std::mem::replace(&mut seen[node], true) {
            continue;
        }
        for byte in 1..=255_usize {
            let place = node ^ byte;
            let unit = units[place];
            if unit & (1 << 31 | 255) != byte as u32 {
                continue;
            }
            let next = place ^ offset(unit);
            if unit >> 8 & 1 == 1 {
                let value = units.get(next).ok_or_else(|| format!("a leaf at {next}"))?;
                let at = (value & !(1 << 31)) as usize;
                if !texts.is_char_boundary(at) {
                    return Err(format!("a replacement at byte {at} of {}", texts.len()));
                }
                let length = texts.as_bytes()[at..].iter().take(LONGEST + 1);
                if length.take_while(|byte| **byte != 0).count() > LONGEST {
                    return Err(format!("a replacement of more than {LONGEST} bytes"));
                }
            }
            waiting.push(next);
        }
    }
    Ok(())
}

fn offset(unit: u32) -> usize {
    let shift = (unit & 1 << 9) >> 6;
    // At most 22 bits shifted by 8.
    ((unit >> 10) as usize) << shift
}
