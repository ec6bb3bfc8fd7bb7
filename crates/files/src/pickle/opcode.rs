//! The instructions of pickles, protocols 2 to 5. Source: `pickletools.py` of CPython.

macro_rules! opcodes {
    ($($name:ident $byte:literal,)*) => {
        $(pub(super) const $name: u8 = $byte;)*
    };
}

opcodes! {
    MARK b'(',
    EMPTY_TUPLE b')',
    STOP b'.',
    POP b'0',
    POP_MARK b'1',
    DUP b'2',
    BINBYTES b'B',
    SHORT_BINBYTES b'C',
    BINFLOAT b'G',
    BININT b'J',
    BININT1 b'K',
    BININT2 b'M',
    NONE b'N',
    BINPERSID b'Q',
    REDUCE b'R',
    BINSTRING b'T',
    SHORT_BINSTRING b'U',
    BINUNICODE b'X',
    EMPTY_LIST b']',
    APPEND b'a',
    BUILD b'b',
    GLOBAL b'c',
    DICT b'd',
    APPENDS b'e',
    BINGET b'h',
    LONG_BINGET b'j',
    LIST b'l',
    BINPUT b'q',
    LONG_BINPUT b'r',
    SETITEM b's',
    TUPLE b't',
    SETITEMS b'u',
    EMPTY_DICT b'}',
    PROTO 0x80,
    TUPLE1 0x85,
    TUPLE3 0x87,
    NEWTRUE 0x88,
    NEWFALSE 0x89,
    LONG1 0x8a,
    LONG4 0x8b,
    SHORT_BINUNICODE 0x8c,
    BINUNICODE8 0x8d,
    BINBYTES8 0x8e,
    STACK_GLOBAL 0x93,
    MEMOIZE 0x94,
    FRAME 0x95,
    BYTEARRAY8 0x96,
}

/// Name of a rejected instruction, and the reason.
pub(super) fn refused(opcode: u8) -> (String, &'static str) {
    const CALLS: &str = "calls a class and so would run code when Python loads it";
    const TEXT: &str = "is of protocol 0 or 1, which torch.save does not write";
    const UNNEEDED: &str = "has no place in a file of weights";
    let (name, why) = match opcode {
        b'i' => ("INST", CALLS),
        b'o' => ("OBJ", CALLS),
        0x81 => ("NEWOBJ", CALLS),
        0x92 => ("NEWOBJ_EX", CALLS),
        0x82 => ("EXT1", CALLS),
        0x83 => ("EXT2", CALLS),
        0x84 => ("EXT4", CALLS),
        b'P' => ("PERSID", TEXT),
        b'F' => ("FLOAT", TEXT),
        b'I' => ("INT", TEXT),
        b'L' => ("LONG", TEXT),
        b'S' => ("STRING", TEXT),
        b'V' => ("UNICODE", TEXT),
        b'g' => ("GET", TEXT),
        b'p' => ("PUT", TEXT),
        0x8f => ("EMPTY_SET", UNNEEDED),
        0x90 => ("ADDITEMS", UNNEEDED),
        0x91 => ("FROZENSET", UNNEEDED),
        0x97 => ("NEXT_BUFFER", UNNEEDED),
        0x98 => ("READONLY_BUFFER", UNNEEDED),
        _ => return (format!("0x{opcode:02x}"), "is not in the pickle format"),
    };
    (name.into(), why)
}
