//! Calls and globals: the instructions for which Python would run code.

use super::fault::PickleFault as Fault;
use super::globals::Global;
use super::machine::{Machine, Node, Rebuilt, Storage, Value};
use super::opcode as op;
use crate::header::StoredType;
use linwright_run::shown;

impl<'a> Machine<'a> {
    /// Resolves a global in the allow-list; nothing is imported.
    pub(super) fn global(&mut self, opcode: u8) -> Result<(), Fault> {
        let (module, name) = if opcode == op::GLOBAL {
            (self.line()?, self.line()?)
        } else {
            let popped = self.pop_some(2, "STACK_GLOBAL")?;
            let [Value::Text(module), Value::Text(name)] = popped[..] else {
                return Err(self.operands("STACK_GLOBAL", "finds no two texts on the stack"));
            };
            (self.piece(module), self.piece(name))
        };
        let found = str::from_utf8(module).ok().zip(str::from_utf8(name).ok());
        match found.and_then(|(module, name)| Global::find(module, name)) {
            Some(global) => self.push(Value::Global(global)),
            None => {
                let name = format!(
                    "{}.{}",
                    shown(&String::from_utf8_lossy(module)),
                    shown(&String::from_utf8_lossy(name))
                );
                Err(Fault::Global { at: self.place(), name })
            }
        }
    }

    /// The bytes up to the end of the line.
    fn line(&mut self) -> Result<&'a [u8], Fault> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        let line = self.take(length, "GLOBAL")?;
        self.take(1, "GLOBAL")?;
        Ok(line)
    }

    /// Resolves the description of a storage: `("storage", type, key, device, numbers)`, with none
    /// as a sixth part in older files.
    pub(super) fn storage(&mut self) -> Result<(), Fault> {
        let popped = self.pop("BINPERSID")?;
        let at = self.place();
        let wrong = |what: &str| Fault::Storage { at, what: what.into() };
        let parts = match popped {
            Value::Node(index) => match &self.nodes[index as usize] {
                Node::Tuple(parts) => &parts[..],
                _ => return Err(wrong("is not a tuple")),
            },
            _ => return Err(wrong("is not a tuple")),
        };
        let (parts, rest) = parts.split_at(parts.len().min(5));
        let [Value::Text(word), Value::Global(global), Value::Text(key), _, Value::Int(n)] = *parts
        else {
            return Err(wrong("has other parts than word, type, key, device and length"));
        };
        if !matches!(rest, [] | [Value::None]) {
            return Err(wrong("is a view of a storage, as torch before 0.4 wrote it"));
        }
        if self.piece(word) != b"storage" {
            return Err(wrong("does not begin with the word storage"));
        }
        let dtype = match global {
            Global::Storage(dtype) => Some(dtype),
            Global::Bytes => None,
            _ => return Err(wrong("names a type that is not a storage")),
        };
        let numbers = u64::try_from(n).map_err(|_| wrong("has a negative length"))?;
        let raw = self.piece(key);
        let index = match self.keys.get(raw) {
            Some(&index) => {
                let known = &self.storages[index as usize];
                if (known.dtype, known.numbers) != (dtype, numbers) {
                    return Err(wrong("gives a storage another type or length than before"));
                }
                index
            }
            None => {
                let index = self.storages.len() as u32;
                self.keys.insert(raw, index);
                self.storages.push(Storage { key, dtype, numbers, at });
                index
            }
        };
        self.add(Node::Storage(index))
    }

    /// Evaluates a call of an allowed global.
    pub(super) fn call(&mut self) -> Result<(), Fault> {
        let popped = self.pop_some(2, "REDUCE")?;
        let wrong = |what| Fault::Call { at: self.place(), what };
        let [Value::Global(callee), Value::Node(args)] = popped[..] else {
            return Err(wrong("is not a known function"));
        };
        let Node::Tuple(args) = &self.nodes[args as usize] else {
            return Err(wrong("has no tuple of arguments"));
        };
        match (callee, &args[..]) {
            (Global::OrderedDict, []) => self.add(Node::Dict(Vec::new())),
            (Global::Tensor, [storage, offset, shape, strides, _, _])
            | (Global::Tensor, [storage, offset, shape, strides, _, _, _]) => {
                self.tensor([*storage, *offset, *shape, *strides], None)
            }
            (Global::TypedTensor, [storage, offset, shape, strides, _, _, Value::Global(t)])
            | (Global::TypedTensor, [storage, offset, shape, strides, _, _, Value::Global(t), _]) => {
                match *t {
                    Global::Type(dtype) => {
                        self.tensor([*storage, *offset, *shape, *strides], Some(dtype))
                    }
                    _ => Err(wrong("has no type of numbers as seventh argument")),
                }
            }
            (Global::Parameter, [tensor, _, _]) => {
                let tensor = *tensor;
                self.push(tensor)
            }
            (Global::Size, [extents @ Value::Node(index)])
                if matches!(self.nodes[*index as usize], Node::Tuple(_)) =>
            {
                let extents = *extents;
                self.push(extents)
            }
            (Global::Device, [_] | [_, _]) => self.push(Value::Inert),
            _ => Err(wrong("has other arguments than this name takes")),
        }
    }

    fn tensor(
        &mut self,
        parts: [Value; 4],
        dtype: Option<Option<StoredType>>,
    ) -> Result<(), Fault> {
        let wrong = |what| Fault::Call { at: self.place(), what };
        let [Value::Node(storage), Value::Int(offset), Value::Node(shape), Value::Node(strides)] =
            parts
        else {
            return Err(wrong("has other arguments than storage, offset, shape and strides"));
        };
        let Node::Storage(storage) = self.nodes[storage as usize] else {
            return Err(wrong("has no storage as first argument"));
        };
        let is_tuple = |index: u32| matches!(self.nodes[index as usize], Node::Tuple(_));
        if !is_tuple(shape) || !is_tuple(strides) {
            return Err(wrong("has no tuples as shape and strides"));
        }
        let index = self.tensors.len() as u32;
        self.tensors.push(Rebuilt { storage, dtype, offset, shape, strides });
        self.add(Node::Tensor(index))
    }

    /// Accepts the state of an `OrderedDict`: a dict of attributes, which is ignored.
    pub(super) fn build(&mut self) -> Result<(), Fault> {
        let state = self.pop("BUILD")?;
        let target = self.top("BUILD")?;
        let is_dict = |value| match value {
            Value::Node(index) => matches!(self.nodes[index as usize], Node::Dict(_)),
            _ => false,
        };
        if is_dict(state) && is_dict(target) {
            return Ok(());
        }
        let why = "gives an object a state that is not a dict of attributes";
        Err(Fault::Opcode { at: self.place(), opcode: "BUILD".into(), why })
    }
}
