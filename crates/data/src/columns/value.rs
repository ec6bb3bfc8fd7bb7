//! Conversion of a cell of a column to a JSON value.

use super::Fault;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, ArrowPrimitiveType, ArrowTemporalType, Date32Type, Date64Type,
    Decimal128Type, Decimal256Type, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::{DataType, TimeUnit};
use serde_json::{Map, Number, Value};

/// Memory of a value besides its text, in bytes.
const VALUE_BYTES: u64 = 32;
/// Further memory of a named value: its name, a hash and an index.
const FIELD_BYTES: u64 = 64;
/// Greatest depth of lists and structures.
const MAX_DEPTH: usize = 32;

/// Converts cells, within a bound of memory.
#[derive(Debug)]
pub(super) struct Cells {
    left: u64,
    depth: usize,
}

impl Cells {
    pub(super) fn new(bytes: u64) -> Self {
        Self { left: bytes, depth: 0 }
    }

    fn take(&mut self, bytes: u64) -> Result<(), Fault> {
        self.left = self.left.checked_sub(bytes).ok_or(Fault::Large)?;
        Ok(())
    }

    /// The named values at one index of all columns.
    pub(super) fn fields<'a>(
        &mut self,
        columns: impl Iterator<Item = (&'a str, &'a ArrayRef)>,
        index: usize,
    ) -> Result<Map<String, Value>, Fault> {
        // A row without columns has a cost, too, so that the number of rows is bounded.
        self.take(FIELD_BYTES)?;
        let mut fields = Map::new();
        for (name, column) in columns {
            self.take(FIELD_BYTES + 2 * name.len() as u64)?;
            let value = self.value(column.as_ref(), index).map_err(|fault| match fault {
                Fault::Broken(reason) => Fault::Broken(format!("field {name}: {reason}")),
                Fault::Large => Fault::Large,
            })?;
            fields.insert(name.to_owned(), value);
        }
        Ok(fields)
    }

    /// Converts one cell. Non-finite numbers become the strings that Python writes for them, and
    /// times become text.
    fn value(&mut self, array: &dyn Array, index: usize) -> Result<Value, Fault> {
        self.take(VALUE_BYTES)?;
        if array.is_null(index) {
            return Ok(Value::Null);
        }
        Ok(match array.data_type() {
            DataType::Null => Value::Null,
            DataType::Boolean => array.as_boolean().value(index).into(),
            DataType::Int8 => primitive::<Int8Type>(array, index).into(),
            DataType::Int16 => primitive::<Int16Type>(array, index).into(),
            DataType::Int32 => primitive::<Int32Type>(array, index).into(),
            DataType::Int64 => primitive::<Int64Type>(array, index).into(),
            DataType::UInt8 => primitive::<UInt8Type>(array, index).into(),
            DataType::UInt16 => primitive::<UInt16Type>(array, index).into(),
            DataType::UInt32 => primitive::<UInt32Type>(array, index).into(),
            DataType::UInt64 => primitive::<UInt64Type>(array, index).into(),
            DataType::Float16 => float(primitive::<Float16Type>(array, index).to_f64()),
            DataType::Float32 => float(primitive::<Float32Type>(array, index).into()),
            DataType::Float64 => float(primitive::<Float64Type>(array, index)),
            DataType::Utf8 => self.text(array.as_string::<i32>().value(index))?,
            DataType::LargeUtf8 => self.text(array.as_string::<i64>().value(index))?,
            DataType::Utf8View => self.text(array.as_string_view().value(index))?,
            DataType::Binary => self.bytes(array.as_binary::<i32>().value(index))?,
            DataType::LargeBinary => self.bytes(array.as_binary::<i64>().value(index))?,
            DataType::List(_) => self.list(array.as_list::<i32>().value(index).as_ref())?,
            DataType::LargeList(_) => self.list(array.as_list::<i64>().value(index).as_ref())?,
            DataType::FixedSizeList(..) => {
                self.list(array.as_fixed_size_list().value(index).as_ref())?
            }
            DataType::Struct(_) => self.structure(array.as_struct(), index)?,
            DataType::Map(..) => self.list(&array.as_map().value(index))?,
            DataType::Dictionary(key, _) => self.of_dictionary(key, array, index)?,
            DataType::Decimal128(..) => {
                self.text(&array.as_primitive::<Decimal128Type>().value_as_string(index))?
            }
            DataType::Decimal256(..) => {
                self.text(&array.as_primitive::<Decimal256Type>().value_as_string(index))?
            }
            other => match time(array, index) {
                Some(text) => self.text(&text)?,
                None => return Err(format!("values of type {other} are not supported").into()),
            },
        })
    }

    fn text(&mut self, text: &str) -> Result<Value, Fault> {
        self.take(text.len() as u64)?;
        Ok(text.into())
    }

    /// Bytes are taken as text: old writers do not mark text as UTF-8.
    fn bytes(&mut self, bytes: &[u8]) -> Result<Value, Fault> {
        let text = std::str::from_utf8(bytes)
            .map_err(|_| "bytes that are not UTF-8 are not supported".to_owned())?;
        self.text(text)
    }

    fn list(&mut self, items: &dyn Array) -> Result<Value, Fault> {
        self.within(|cells| {
            // Checked before the list is allocated: its length may be wrong.
            if (items.len() as u64).saturating_mul(VALUE_BYTES) > cells.left {
                return Err(Fault::Large);
            }
            (0..items.len()).map(|index| cells.value(items, index)).collect()
        })
    }

    fn structure(&mut self, array: &StructArray, index: usize) -> Result<Value, Fault> {
        let names = array.fields().iter().map(|field| field.name().as_str());
        let columns = names.zip(array.columns());
        self.within(|cells| Ok(cells.fields(columns, index)?.into()))
    }

    fn within(
        &mut self,
        make: impl FnOnce(&mut Self) -> Result<Value, Fault>,
    ) -> Result<Value, Fault> {
        if self.depth == MAX_DEPTH {
            return Err(
                format!("lists and structures are nested more than {MAX_DEPTH} deep").into()
            );
        }
        self.depth += 1;
        let value = make(self);
        self.depth -= 1;
        value
    }

    fn of_dictionary(
        &mut self,
        key: &DataType,
        array: &dyn Array,
        index: usize,
    ) -> Result<Value, Fault> {
        match key {
            DataType::Int8 => self.keyed::<Int8Type>(array, index),
            DataType::Int16 => self.keyed::<Int16Type>(array, index),
            DataType::Int32 => self.keyed::<Int32Type>(array, index),
            DataType::Int64 => self.keyed::<Int64Type>(array, index),
            DataType::UInt8 => self.keyed::<UInt8Type>(array, index),
            DataType::UInt16 => self.keyed::<UInt16Type>(array, index),
            DataType::UInt32 => self.keyed::<UInt32Type>(array, index),
            DataType::UInt64 => self.keyed::<UInt64Type>(array, index),
            other => Err(format!("keys of type {other} are not supported").into()),
        }
    }

    fn keyed<K: ArrowDictionaryKeyType>(
        &mut self,
        array: &dyn Array,
        index: usize,
    ) -> Result<Value, Fault> {
        let dictionary = array.as_dictionary::<K>();
        match dictionary.key(index).filter(|&key| key < dictionary.values().len()) {
            Some(key) => self.value(dictionary.values().as_ref(), key),
            None => Err("a key is not in its dictionary".to_owned().into()),
        }
    }
}

fn primitive<T: ArrowPrimitiveType>(array: &dyn Array, index: usize) -> T::Native {
    array.as_primitive::<T>().value(index)
}

/// A number, or Python's string for a non-finite one.
fn float(value: f64) -> Value {
    Number::from_f64(value).map_or_else(
        || {
            let word = if value.is_nan() {
                "nan"
            } else if value > 0.0 {
                "inf"
            } else {
                "-inf"
            };
            word.into()
        },
        Value::Number,
    )
}

/// A date or a time as text, in UTC if it has a time zone; `None` for another type, or for an
/// invalid date.
fn time(array: &dyn Array, index: usize) -> Option<String> {
    fn instant<T: ArrowTemporalType>(array: &dyn Array, index: usize) -> Option<String>
    where
        i64: From<T::Native>,
    {
        Some(array.as_primitive::<T>().value_as_datetime(index)?.to_string())
    }
    fn clock<T: ArrowTemporalType>(array: &dyn Array, index: usize) -> Option<String>
    where
        i64: From<T::Native>,
    {
        Some(array.as_primitive::<T>().value_as_time(index)?.to_string())
    }
    match array.data_type() {
        DataType::Timestamp(unit, zone) => {
            let text = match unit {
                TimeUnit::Second => instant::<TimestampSecondType>(array, index),
                TimeUnit::Millisecond => instant::<TimestampMillisecondType>(array, index),
                TimeUnit::Microsecond => instant::<TimestampMicrosecondType>(array, index),
                TimeUnit::Nanosecond => instant::<TimestampNanosecondType>(array, index),
            }?;
            Some(if zone.is_some() { format!("{text}+00:00") } else { text })
        }
        DataType::Date32 => {
            Some(array.as_primitive::<Date32Type>().value_as_date(index)?.to_string())
        }
        DataType::Date64 => {
            Some(array.as_primitive::<Date64Type>().value_as_date(index)?.to_string())
        }
        DataType::Time32(TimeUnit::Second) => clock::<Time32SecondType>(array, index),
        DataType::Time32(TimeUnit::Millisecond) => clock::<Time32MillisecondType>(array, index),
        DataType::Time64(TimeUnit::Microsecond) => clock::<Time64MicrosecondType>(array, index),
        DataType::Time64(TimeUnit::Nanosecond) => clock::<Time64NanosecondType>(array, index),
        _ => None,
    }
}
