//! The globals that a weight file may use; no other name is resolved.

use crate::header::StoredType;

/// An allowed global with its meaning here. None of them is a Python object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Global {
    /// `collections.OrderedDict`.
    OrderedDict,
    /// `torch._utils._rebuild_tensor_v2`: type from the storage.
    Tensor,
    /// `torch._utils._rebuild_tensor_v3`: type from an argument.
    TypedTensor,
    /// `torch._utils._rebuild_parameter`.
    Parameter,
    /// `torch.Size`.
    Size,
    /// `torch.device`.
    Device,
    /// A storage of numbers of one type.
    Storage(StoredType),
    /// A storage of bytes.
    Bytes,
    /// `torch.float32` and so on; none for unsupported types.
    Type(Option<StoredType>),
}

impl Global {
    /// The allowed global of a name.
    pub(super) fn find(module: &str, name: &str) -> Option<Self> {
        Some(match (module, name) {
            ("collections", "OrderedDict") => Self::OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2") => Self::Tensor,
            ("torch._utils", "_rebuild_tensor_v3") => Self::TypedTensor,
            ("torch._utils", "_rebuild_parameter") => Self::Parameter,
            ("torch", "Size") => Self::Size,
            ("torch", "device") => Self::Device,
            ("torch.storage", "UntypedStorage") | ("torch", "UntypedStorage") => Self::Bytes,
            ("torch", name) => storage(name).map(Self::Storage).or_else(|| dtype(name))?,
            _ => return None,
        })
    }
}

fn storage(name: &str) -> Option<StoredType> {
    Some(match name {
        "DoubleStorage" => StoredType::F64,
        "FloatStorage" => StoredType::F32,
        "HalfStorage" => StoredType::F16,
        "BFloat16Storage" => StoredType::Bf16,
        "LongStorage" => StoredType::I64,
        "IntStorage" => StoredType::I32,
        "ShortStorage" => StoredType::I16,
        "CharStorage" => StoredType::I8,
        "ByteStorage" => StoredType::U8,
        "BoolStorage" => StoredType::Bool,
        "ComplexFloatStorage" => StoredType::C64,
        _ => return None,
    })
}

fn dtype(name: &str) -> Option<Global> {
    let stored = match name {
        "float64" => StoredType::F64,
        "float32" => StoredType::F32,
        "float16" => StoredType::F16,
        "bfloat16" => StoredType::Bf16,
        "float8_e4m3fn" => StoredType::F8_E4M3,
        "float8_e5m2" => StoredType::F8_E5M2,
        "float8_e4m3fnuz" => StoredType::F8_E4M3Fnuz,
        "float8_e5m2fnuz" => StoredType::F8_E5M2Fnuz,
        "float8_e8m0fnu" => StoredType::F8_E8M0,
        "int64" => StoredType::I64,
        "int32" => StoredType::I32,
        "int16" => StoredType::I16,
        "int8" => StoredType::I8,
        "uint64" => StoredType::U64,
        "uint32" => StoredType::U32,
        "uint16" => StoredType::U16,
        "uint8" => StoredType::U8,
        "bool" => StoredType::Bool,
        "complex64" => StoredType::C64,
        "complex128" | "complex32" | "float4_e2m1fn_x2" => return Some(Global::Type(None)),
        _ => return None,
    };
    Some(Global::Type(Some(stored)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_listed_is_found() {
        assert_eq!(Global::find("collections", "OrderedDict"), Some(Global::OrderedDict));
        assert_eq!(Global::find("torch", "HalfStorage"), Some(Global::Storage(StoredType::F16)));
        assert_eq!(Global::find("torch", "int8"), Some(Global::Type(Some(StoredType::I8))));
        for (module, name) in [
            ("os", "system"),
            ("builtins", "eval"),
            ("torch", "load"),
            ("torch", "hub.load"),
            ("torch._utils", "_rebuild_tensor"),
            ("collections", "OrderedDict.fromkeys"),
            ("collections.OrderedDict", ""),
            ("", "OrderedDict"),
        ] {
            assert_eq!(Global::find(module, name), None, "{module}.{name}");
        }
    }
}
