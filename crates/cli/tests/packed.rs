//! Texts in gzip and in `.json`, wherever a command takes a text, a table or the data of a task.

use crate::texts;
use crate::workshop::Workshop;
use std::fs;

/// A member of gzip whose content is stored as it is.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = HEADER.to_vec();
    let blocks: Vec<&[u8]> = bytes.chunks(u16::MAX as usize).collect();
    for (index, block) in blocks.iter().enumerate() {
        packed.push(u8::from(index + 1 == blocks.len()));
        let length = block.len() as u16;
        packed.extend(length.to_le_bytes());
        packed.extend((!length).to_le_bytes());
        packed.extend(*block);
    }
    let step = |crc: u32| if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 };
    let crc = !bytes
        .iter()
        .fold(!0, |crc: u32, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)));
    packed.extend(crc.to_le_bytes());
    packed.extend((bytes.len() as u32).to_le_bytes());
    packed
}

const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// A file in gzip of as many letters as a thousandth of its bytes allows.
fn bomb(letters: usize) -> Vec<u8> {
    let (mut packed, mut bits, mut count) = (HEADER.to_vec(), 0_u32, 0);
    let mut put = |value: u32, width: u32| {
        bits |= value << count;
        count += width;
        while count >= 8 {
            packed.push(bits as u8);
            (bits, count) = (bits >> 8, count - 8);
        }
    };
    // One block of fixed codes; the letter a; matches of 258 letters at a distance of one.
    put(1, 1);
    put(1, 2);
    put(0b1000_1001, 8);
    for _ in 0..letters / 258 {
        put(0b1010_0011, 8);
        put(0, 5);
    }
    put(0, 7 + 8);
    packed
}

#[test]
fn every_command_that_takes_texts_takes_them_packed() {
    let w = texts::workshop();
    let rows = w.text("rows.jsonl");
    w.write("lines.json", &rows);
    w.write("lines.json.gz", gzip(rows.as_bytes()));
    let list: Vec<&str> = rows.lines().collect();
    w.write("list.json.gz", gzip(format!("[{}]", list.join(",\n")).as_bytes()));
    // Two members are one content.
    let (first, rest) = rows.split_at(rows.find('\n').unwrap() + 1);
    w.write("rows.jsonl.gz", [gzip(first.as_bytes()), gzip(rest.as_bytes())].concat());
    for name in ["rows.csv", "rows.tsv", "asked.jsonl"] {
        w.write(&format!("{name}.gz"), gzip(&w.read(name)));
    }
    for (verb, options) in texts::CASES {
        for [jsonl, csv, tsv] in [
            ["rows.jsonl.gz", "rows.csv.gz", "rows.tsv.gz"],
            ["lines.json", "lines.json.gz", "list.json.gz"],
        ] {
            let options = options.replace("rows.jsonl", jsonl).replace("rows.csv", csv);
            let options = options.replace("rows.tsv", tsv).replace("asked.jsonl", "asked.jsonl.gz");
            let out = w.ok(&format!("{verb} {options} --text-field content"));
            assert!(!out.is_empty(), "{verb}");
            for place in ["out", "lists"].map(|name| w.path(name)) {
                if place.exists() {
                    fs::remove_dir_all(place).unwrap();
                }
            }
        }
    }
}

#[test]
fn figures_are_those_of_the_plain_text() {
    let w = Workshop::new();
    let figures =
        |text: &str| w.ok_json(&format!("eval model --window 32 --text {text}"))["results"].clone();
    let lines = w.text("text.jsonl");
    w.write("text.json", &lines);
    w.write("c4-train.00000-of-01024.json.gz", gzip(lines.as_bytes()));
    w.write("plain.txt", "Tom saw a boat by the lake. Mia saw it too.");
    w.write("plain.txt.gz", gzip(&w.read("plain.txt")));
    let want = figures("text.jsonl");
    for file in ["text.json", "c4-train.00000-of-01024.json.gz"] {
        assert_eq!(figures(file), want, "{file}");
    }
    assert_eq!(figures("plain.txt.gz"), figures("plain.txt"));
    w.ok("compress model --method svd --keep 0.5 --calibration c4-train.00000-of-01024.json.gz --dry-run -o out");
    // Tables of tasks and questions.
    w.write("questions.jsonl.gz", gzip(&w.read("questions.jsonl")));
    let questions = |file: &str| {
        w.ok_json(&format!("eval model --tasks questions --data questions={file}"))["results"]
            .clone()
    };
    assert_eq!(questions("questions.jsonl.gz"), questions("questions.jsonl"));
}

#[test]
fn structures_are_read_packed() {
    let w = Workshop::new();
    crate::molecule::potential(&w);
    w.write("a.xyz.gz", gzip(&w.read("a.xyz")));
    let errors = |file: &str| w.ok_json(&format!("molecule eval potential.ckpt {file} --exact"));
    assert_eq!(errors("a.xyz.gz"), errors("a.xyz"));
    w.write("bomb.xyz.gz", bomb(1 << 28));
    let words = ["bomb.xyz.gz", "at most"];
    w.fails("molecule eval potential.ckpt bomb.xyz.gz", 1, &words);
}

#[test]
fn packed_texts_are_bounded_and_damage_is_told() {
    let w = Workshop::new();
    w.write("bomb.txt.gz", bomb(1 << 30));
    let size = w.read("bomb.txt.gz").len();
    assert!(size < 8 << 20);
    let words = ["bomb.txt.gz", "bytes in gzip become more than", "64 times", "decompress"];
    w.fails("eval model --text bomb.txt.gz", 1, &words);
    // Its content counts against the memory that is allowed, before it is read.
    w.fails(
        "eval model --text bomb.txt.gz --max-memory 300MB",
        5,
        &["bomb.txt.gz", "--max-memory"],
    );
    let good = gzip(b"Tom saw a boat.");
    w.write("cut.txt.gz", &good[..good.len() - 9]);
    w.fails("eval model --text cut.txt.gz", 1, &["cut.txt.gz", "damaged as gzip"]);
    w.write("text.jsonl.zst", b"\x28\xb5\x2f\xfd\xff\xff");
    w.fails("eval model --text text.jsonl.zst", 1, &["Zstandard", "expected a plain file or gzip"]);
}

#[test]
fn models_beyond_the_memory_that_is_allowed_are_not_read() {
    let w = Workshop::new();
    let bytes = fs::metadata(w.path("model/model.safetensors")).unwrap().len();
    let args = format!("eval model --text text.jsonl --window 16 --max-memory {}", bytes / 2);
    let told = w.fails(&args, 5, &["model has", "bytes of weights", "--max-memory", "allow more"]);
    assert!(!told.contains("loading"), "{told}");
}
