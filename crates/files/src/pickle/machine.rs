//! A pickle machine that builds its own values and calls nothing.
//!
//! A pickle is a program for a stack machine that can call any Python function. This one implements
//! the instructions and the globals of a state dict ([`Global`]); anything else is an error. Values
//! never contain values: containers are entries of one table and refer to each other by index, so
//! nothing nests, and a container that contains itself does no harm.
//!
//! Memory: an instruction of one byte adds at most 16 bytes to the stack or the memo; containers,
//! which cost more, are limited to a quarter of the length of the pickle.
//! Source: `pickletools.py` of CPython, which describes each instruction.

use super::fault::PickleFault as Fault;
use super::globals::Global;
use super::opcode as op;
use crate::header::StoredType;
use std::collections::BTreeMap;

/// Longest pickle in bytes.
const PICKLE_BYTES: usize = 1 << 30;
/// Largest number of values on the stack: writers push a thousand entries at a time.
const STACK: usize = 1 << 15;
/// Largest number of unfinished containers.
const MARKS: usize = 1 << 10;

/// A value without parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// A string, as a range of the pickle.
    Text(Piece),
    /// An integer of more than 64 bits, little-endian.
    Long(Piece),
    Global(Global),
    /// A container, storage or tensor, as an index into the table.
    Node(u32),
    /// An ignored value: bytes, devices.
    Inert,
}

/// A range of the pickle: offset and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    start: u32,
    length: u32,
}

/// A value with parts.
#[derive(Debug)]
pub(super) enum Node {
    List(Vec<Value>),
    Tuple(Box<[Value]>),
    Dict(Vec<(Value, Value)>),
    Storage(u32),
    Tensor(u32),
}

/// A storage of the pickle.
#[derive(Debug)]
pub(super) struct Storage {
    pub(super) key: Piece,
    /// Type of its numbers; none for bytes.
    pub(super) dtype: Option<StoredType>,
    /// Number of numbers, or of bytes.
    pub(super) numbers: u64,
    /// Offset of the first reference to it.
    pub(super) at: usize,
}

impl Storage {
    /// Its size in bytes, unless it overflows.
    pub(super) fn size(&self) -> Option<usize> {
        let one = self.dtype.map_or(8, StoredType::bits) / 8;
        self.numbers.checked_mul(one).and_then(|size| usize::try_from(size).ok())
    }
}

/// A requested tensor, not yet checked.
#[derive(Debug)]
pub(super) struct Rebuilt {
    pub(super) storage: u32,
    /// Its type; none if the storage's.
    pub(super) dtype: Option<Option<StoredType>>,
    pub(super) offset: i64,
    /// Shape and strides, as tuples in the table.
    pub(super) shape: u32,
    pub(super) strides: u32,
}

/// The result of a pickle.
#[derive(Debug)]
pub(super) struct Pickled<'a> {
    bytes: &'a [u8],
    base: usize,
    pub(super) root: Value,
    pub(super) nodes: Vec<Node>,
    pub(super) storages: Vec<Storage>,
    pub(super) tensors: Vec<Rebuilt>,
    /// Length of the pickle in bytes.
    pub(super) length: usize,
}

impl<'a> Pickled<'a> {
    /// The string of a range; empty if it is none.
    pub(super) fn text(&self, piece: Piece) -> &'a str {
        str::from_utf8(self.raw(piece)).unwrap_or_default()
    }

    /// The bytes of a range.
    pub(super) fn raw(&self, piece: Piece) -> &'a [u8] {
        &self.bytes[piece.start as usize..][..piece.length as usize]
    }

    /// The string of a value.
    pub(super) fn as_text(&self, value: Value) -> Option<&'a str> {
        match value {
            Value::Text(piece) => Some(self.text(piece)),
            _ => None,
        }
    }

    /// The table entry of a value.
    pub(super) fn node(&self, value: Value) -> Option<&Node> {
        match value {
            Value::Node(index) => self.nodes.get(index as usize),
            _ => None,
        }
    }

    /// Length of the pickle and of the bytes before it, the base of positions.
    pub(super) fn end(&self) -> usize {
        self.base + self.length
    }
}

/// Runs the pickle at offset `base` of `file` to its end.
pub(super) fn run(file: &[u8], base: usize) -> Result<Pickled<'_>, Fault> {
    let rest = file.get(base..).unwrap_or_default();
    let bytes = &rest[..rest.len().min(PICKLE_BYTES)];
    let mut machine = Machine {
        bytes,
        base,
        at: 0,
        opcode_at: 0,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Vec::new(),
        remembered: 0,
        nodes: Vec::new(),
        storages: Vec::new(),
        tensors: Vec::new(),
        keys: BTreeMap::new(),
    };
    loop {
        machine.opcode_at = machine.at;
        let opcode = machine.take_array::<1>("an instruction")?[0];
        if opcode == op::STOP {
            break;
        }
        machine.step(opcode)?;
    }
    let root = machine.pop("STOP")?;
    let Machine { at, nodes, storages, tensors, .. } = machine;
    Ok(Pickled { bytes, base, root, nodes, storages, tensors, length: at })
}

/// State of the machine.
pub(super) struct Machine<'a> {
    pub(super) bytes: &'a [u8],
    /// Offset of the pickle in its file.
    base: usize,
    pub(super) at: usize,
    opcode_at: usize,
    stack: Vec<Value>,
    /// Stack lengths at the marks.
    marks: Vec<usize>,
    memo: Vec<Option<Value>>,
    /// Number of memo entries.
    remembered: usize,
    pub(super) nodes: Vec<Node>,
    pub(super) storages: Vec<Storage>,
    pub(super) tensors: Vec<Rebuilt>,
    pub(super) keys: BTreeMap<&'a [u8], u32>,
}

impl<'a> Machine<'a> {
    fn step(&mut self, opcode: u8) -> Result<(), Fault> {
        match opcode {
            op::PROTO => self.take(1, "PROTO").map(drop),
            op::FRAME => self.take(8, "FRAME").map(drop),
            op::MARK => self.mark(),
            op::POP => self.pop("POP").map(drop),
            op::POP_MARK => self.pop_mark("POP_MARK").map(drop),
            op::DUP => {
                let top = self.top("DUP")?;
                self.push(top)
            }
            op::NONE => self.push(Value::None),
            op::NEWTRUE => self.push(Value::Bool(true)),
            op::NEWFALSE => self.push(Value::Bool(false)),
            op::BININT | op::BININT1 | op::BININT2 | op::LONG1 | op::LONG4 => self.integer(opcode),
            op::BINFLOAT => {
                let bytes = self.take_array("BINFLOAT")?;
                self.push(Value::Float(f64::from_be_bytes(bytes)))
            }
            op::SHORT_BINSTRING
            | op::BINSTRING
            | op::BINUNICODE
            | op::SHORT_BINUNICODE
            | op::BINUNICODE8 => self.text(opcode),
            op::BINBYTES | op::SHORT_BINBYTES | op::BINBYTES8 | op::BYTEARRAY8 => {
                self.counted(opcode)?;
                self.push(Value::Inert)
            }
            op::BINPUT | op::LONG_BINPUT | op::MEMOIZE => self.put(opcode),
            op::BINGET | op::LONG_BINGET => self.get(opcode),
            op::GLOBAL | op::STACK_GLOBAL => self.global(opcode),
            op::BINPERSID => self.storage(),
            op::REDUCE => self.call(),
            op::BUILD => self.build(),
            _ => self.container(opcode),
        }
    }

    fn container(&mut self, opcode: u8) -> Result<(), Fault> {
        match opcode {
            op::EMPTY_LIST => self.add(Node::List(Vec::new())),
            op::EMPTY_DICT => self.add(Node::Dict(Vec::new())),
            op::EMPTY_TUPLE => self.add(Node::Tuple(Box::default())),
            op::LIST => {
                let items = self.pop_mark("LIST")?;
                self.add(Node::List(items))
            }
            op::TUPLE => {
                let items = self.pop_mark("TUPLE")?;
                self.add(Node::Tuple(items.into()))
            }
            op::TUPLE1..=op::TUPLE3 => {
                let count = usize::from(opcode - op::TUPLE1) + 1;
                let items: Box<[Value]> = self.pop_some(count, "TUPLE")?.into();
                self.add(Node::Tuple(items))
            }
            op::DICT => {
                let items = self.pop_mark("DICT")?;
                self.add(Node::Dict(Vec::new()))?;
                self.set_items(&items, "DICT")
            }
            op::APPEND => {
                let item = self.pop("APPEND")?;
                self.append(&[item], "APPEND")
            }
            op::APPENDS => {
                let items = self.pop_mark("APPENDS")?;
                self.append(&items, "APPENDS")
            }
            op::SETITEM => {
                let items = self.pop_some(2, "SETITEM")?;
                self.set_items(&items, "SETITEM")
            }
            op::SETITEMS => {
                let items = self.pop_mark("SETITEMS")?;
                self.set_items(&items, "SETITEMS")
            }
            _ => {
                let (opcode, why) = op::refused(opcode);
                Err(Fault::Opcode { at: self.place(), opcode, why })
            }
        }
    }

    /// Offset of the current instruction in the file.
    pub(super) fn place(&self) -> usize {
        self.base + self.opcode_at
    }

    pub(super) fn operands(&self, opcode: &'static str, what: &'static str) -> Fault {
        Fault::Operands { at: self.place(), opcode, what }
    }

    fn limit(&self, what: &'static str, limit: usize) -> Fault {
        Fault::Limit { at: self.place(), what, limit }
    }

    pub(super) fn take(&mut self, count: usize, within: &'static str) -> Result<&'a [u8], Fault> {
        let end = self.at.checked_add(count);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let truncated = Fault::Truncated { at: self.base + self.bytes.len(), within };
        let taken = taken.ok_or(truncated)?;
        self.at += count;
        Ok(taken)
    }

    fn take_array<const N: usize>(&mut self, within: &'static str) -> Result<[u8; N], Fault> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, within)?);
        Ok(array)
    }

    /// A range of the pickle after a length field of this many bytes.
    fn counted(&mut self, opcode: u8) -> Result<Piece, Fault> {
        let within = "a text or an integer";
        let length = match opcode {
            op::SHORT_BINSTRING | op::SHORT_BINUNICODE | op::SHORT_BINBYTES | op::LONG1 => {
                u64::from(self.take_array::<1>(within)?[0])
            }
            op::BINUNICODE8 | op::BINBYTES8 | op::BYTEARRAY8 => {
                u64::from_le_bytes(self.take_array(within)?)
            }
            _ => u64::from(u32::from_le_bytes(self.take_array(within)?)),
        };
        let start = self.at;
        self.take(usize::try_from(length).unwrap_or(usize::MAX), within)?;
        // Both are below `PICKLE_BYTES`.
        Ok(Piece { start: start as u32, length: length as u32 })
    }

    pub(super) fn piece(&self, piece: Piece) -> &'a [u8] {
        &self.bytes[piece.start as usize..][..piece.length as usize]
    }

    fn integer(&mut self, opcode: u8) -> Result<(), Fault> {
        let within = "an integer";
        let value = match opcode {
            op::BININT1 => i64::from(self.take_array::<1>(within)?[0]),
            op::BININT2 => i64::from(u16::from_le_bytes(self.take_array(within)?)),
            op::BININT => i64::from(i32::from_le_bytes(self.take_array(within)?)),
            _ => {
                let piece = self.counted(opcode)?;
                let raw = self.piece(piece);
                if raw.len() > 8 {
                    return self.push(Value::Long(piece));
                }
                // The sign is that of the last byte.
                let negative = raw.last().is_some_and(|byte| byte & 0x80 != 0);
                let mut bytes = [if negative { 0xff } else { 0 }; 8];
                bytes[..raw.len()].copy_from_slice(raw);
                i64::from_le_bytes(bytes)
            }
        };
        self.push(Value::Int(value))
    }

    fn text(&mut self, opcode: u8) -> Result<(), Fault> {
        let piece = self.counted(opcode)?;
        match str::from_utf8(self.piece(piece)) {
            Ok(_) => self.push(Value::Text(piece)),
            // Python 2 writes bytes this way.
            Err(_) if matches!(opcode, op::SHORT_BINSTRING | op::BINSTRING) => {
                self.push(Value::Inert)
            }
            Err(_) => Err(self.operands("BINUNICODE", "holds text that is not UTF-8")),
        }
    }

    pub(super) fn push(&mut self, value: Value) -> Result<(), Fault> {
        if self.stack.len() == STACK {
            return Err(self.limit("values on the stack", STACK));
        }
        self.stack.push(value);
        Ok(())
    }

    fn mark(&mut self) -> Result<(), Fault> {
        if self.marks.len() == MARKS {
            return Err(self.limit("containers within each other", MARKS));
        }
        self.marks.push(self.stack.len());
        Ok(())
    }

    /// Pops the values above the last mark.
    pub(super) fn pop_some(
        &mut self,
        count: usize,
        opcode: &'static str,
    ) -> Result<Vec<Value>, Fault> {
        let floor = self.marks.last().copied().unwrap_or(0);
        match self.stack.len().checked_sub(count).filter(|start| *start >= floor) {
            Some(start) => Ok(self.stack.split_off(start)),
            None => Err(self.operands(opcode, "finds too few values on the stack")),
        }
    }

    pub(super) fn pop(&mut self, opcode: &'static str) -> Result<Value, Fault> {
        let top = self.top(opcode)?;
        self.stack.pop();
        Ok(top)
    }

    pub(super) fn top(&self, opcode: &'static str) -> Result<Value, Fault> {
        let floor = self.marks.last().copied().unwrap_or(0);
        match self.stack.last() {
            Some(top) if self.stack.len() > floor => Ok(*top),
            _ => Err(self.operands(opcode, "finds the stack empty")),
        }
    }

    fn pop_mark(&mut self, opcode: &'static str) -> Result<Vec<Value>, Fault> {
        match self.marks.pop() {
            Some(mark) => Ok(self.stack.split_off(mark)),
            None => Err(self.operands(opcode, "finds no mark on the stack")),
        }
    }

    fn put(&mut self, opcode: u8) -> Result<(), Fault> {
        let index = match opcode {
            op::BINPUT => usize::from(self.take_array::<1>("BINPUT")?[0]),
            op::LONG_BINPUT => u32::from_le_bytes(self.take_array("LONG_BINPUT")?) as usize,
            _ => self.remembered,
        };
        if index >= self.bytes.len() {
            return Err(self.limit("places in the memo", self.bytes.len()));
        }
        let top = self.top("PUT")?;
        if index >= self.memo.len() {
            self.memo.resize(index + 1, None);
        }
        if self.memo[index].replace(top).is_none() {
            self.remembered += 1;
        }
        Ok(())
    }

    fn get(&mut self, opcode: u8) -> Result<(), Fault> {
        let index = match opcode {
            op::BINGET => usize::from(self.take_array::<1>("BINGET")?[0]),
            _ => u32::from_le_bytes(self.take_array("LONG_BINGET")?) as usize,
        };
        let empty = self.operands("GET", "reads a place of the memo that was never written");
        let value = self.memo.get(index).copied().flatten().ok_or(empty)?;
        self.push(value)
    }

    /// Adds an entry to the table and pushes it on the stack.
    pub(super) fn add(&mut self, node: Node) -> Result<(), Fault> {
        let limit = self.bytes.len() / 4 + 64;
        if self.nodes.len() == limit {
            return Err(self.limit("containers for its size", limit));
        }
        // Below the length of a pickle, which fits.
        let index = self.nodes.len() as u32;
        self.nodes.push(node);
        self.push(Value::Node(index))
    }

    fn append(&mut self, items: &[Value], opcode: &'static str) -> Result<(), Fault> {
        if let Value::Node(index) = self.top(opcode)?
            && let Node::List(list) = &mut self.nodes[index as usize]
        {
            list.extend_from_slice(items);
            return Ok(());
        }
        Err(self.operands(opcode, "finds no list to put them in"))
    }

    fn set_items(&mut self, items: &[Value], opcode: &'static str) -> Result<(), Fault> {
        let (pairs, odd) = items.as_chunks::<2>();
        if !odd.is_empty() {
            return Err(self.operands(opcode, "finds a key without a value"));
        }
        if let Value::Node(index) = self.top(opcode)?
            && let Node::Dict(dict) = &mut self.nodes[index as usize]
        {
            dict.extend(pairs.iter().map(|[key, value]| (*key, *value)));
            return Ok(());
        }
        Err(self.operands(opcode, "finds no dict to put them in"))
    }
}
