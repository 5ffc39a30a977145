// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part of protocol buffers' wire format that pprof needs: numbers, bytes and lists of both.

/// Why bytes are no message.
pub(crate) type Damage = &'static str;

/// A field's value as it stands in the bytes.
pub(crate) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Of a kind that no field of ours has.
    Other,
}

/// Splits a message into its fields.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Damage> {
        if length > self.0.len() {
            return Err("it ends in the middle of a field");
        }
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn number(&mut self) -> Result<u64, Damage> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err("it has a number of more than ten bytes")
    }

    pub(crate) fn field(&mut self) -> Result<(u32, Value<'a>), Damage> {
        let key = self.number()?;
        let tag = u32::try_from(key >> 3).map_err(|_| "it has a field number that is too large")?;
        let value = match key & 7 {
            0 => Value::Number(self.number()?),
            1 => self.take(8).map(|_| Value::Other)?,
            2 => {
                let length = usize::try_from(self.number()?).unwrap_or(usize::MAX);
                Value::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Value::Other)?,
            _ => return Err("it has a field of an unknown kind"),
        };
        if tag == 0 {
            return Err("it has a field without a number");
        }
        Ok((tag, value))
    }
}

pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, tag: u32, bytes: &[u8]) {
    put_number(out, u64::from(tag) << 3 | 2);
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A message: knows its fields by their numbers.
pub(crate) trait Message: Default + PartialEq {
    /// Whether one without a field is left out where it is read: it costs two bytes in a file, and many times that here.
    const EMPTY_SAYS_NOTHING: bool;

    fn encode(&self, out: &mut Vec<u8>);
    fn merge_field(&mut self, tag: u32, value: Value<'_>) -> Result<(), Damage>;

    fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let mut message = Self::default();
        let mut reader = Reader(bytes);
        while !reader.0.is_empty() {
            let (tag, value) = reader.field()?;
            message.merge_field(tag, value)?;
        }
        Ok(message)
    }
}

/// A field of a message.
pub(crate) trait Field {
    fn put(&self, tag: u32, out: &mut Vec<u8>);
    fn merge(&mut self, value: Value<'_>) -> Result<(), Damage>;
}

/// Of one kind in one message. A profile of ours has at most a million stacks.
const MOST_MESSAGES: usize = 8 << 20;

fn has_room<T>(list: &[T]) -> Result<(), Damage> {
    if list.len() >= MOST_MESSAGES {
        return Err("it has more than eight million entries of one kind");
    }
    Ok(())
}

const WRONG_KIND: Damage = "a field has another kind than pprof gives it";

/// A number of the wire as a value, and back.
trait Number: Copy + PartialEq + Default {
    fn from_wire(number: u64) -> Self;
    fn to_wire(self) -> u64;
}

impl Number for u64 {
    fn from_wire(number: u64) -> Self {
        number
    }
    fn to_wire(self) -> u64 {
        self
    }
}

impl Number for i64 {
    fn from_wire(number: u64) -> Self {
        number as i64
    }
    fn to_wire(self) -> u64 {
        self as u64
    }
}

impl Number for bool {
    fn from_wire(number: u64) -> Self {
        number != 0
    }
    fn to_wire(self) -> u64 {
        self.into()
    }
}

macro_rules! number_fields {
    ($($type:ty)*) => {$(
        impl Field for $type {
            fn put(&self, tag: u32, out: &mut Vec<u8>) {
                if *self != <$type>::default() {
                    put_number(out, u64::from(tag) << 3);
                    put_number(out, self.to_wire());
                }
            }
            fn merge(&mut self, value: Value<'_>) -> Result<(), Damage> {
                let Value::Number(number) = value else { return Err(WRONG_KIND) };
                *self = Number::from_wire(number);
                Ok(())
            }
        }
    )*};
}
number_fields!(u64 i64 bool);

macro_rules! list_fields {
    ($($type:ty)*) => {$(
        impl Field for Vec<$type> {
            fn put(&self, tag: u32, out: &mut Vec<u8>) {
                if !self.is_empty() {
                    let mut packed = Vec::new();
                    self.iter().for_each(|number| put_number(&mut packed, number.to_wire()));
                    put_bytes(out, tag, &packed);
                }
            }
            /// Writers may pack lists of numbers or not.
            fn merge(&mut self, value: Value<'_>) -> Result<(), Damage> {
                match value {
                    Value::Number(number) => self.push(Number::from_wire(number)),
                    Value::Bytes(packed) => {
                        let mut reader = Reader(packed);
                        while !reader.0.is_empty() {
                            self.push(Number::from_wire(reader.number()?));
                        }
                    }
                    Value::Other => return Err(WRONG_KIND),
                }
                Ok(())
            }
        }
    )*};
}
list_fields!(u64 i64);

impl Field for Vec<String> {
    fn put(&self, tag: u32, out: &mut Vec<u8>) {
        self.iter().for_each(|text| put_bytes(out, tag, text.as_bytes()));
    }
    fn merge(&mut self, value: Value<'_>) -> Result<(), Damage> {
        let Value::Bytes(bytes) = value else { return Err(WRONG_KIND) };
        has_room(self)?;
        // Names of other people's making: one that is no text does not cost the profile.
        self.push(String::from_utf8_lossy(bytes).into_owned());
        Ok(())
    }
}

impl<M: Message> Field for Vec<M> {
    fn put(&self, tag: u32, out: &mut Vec<u8>) {
        let mut bytes = Vec::new();
        for message in self {
            bytes.clear();
            message.encode(&mut bytes);
            put_bytes(out, tag, &bytes);
        }
    }
    fn merge(&mut self, value: Value<'_>) -> Result<(), Damage> {
        let Value::Bytes(bytes) = value else { return Err(WRONG_KIND) };
        has_room(self)?;
        let message = M::decode(bytes)?;
        // One of nothing but zeros and fields of later versions is written without a field.
        if !M::EMPTY_SAYS_NOTHING || message != M::default() {
            self.push(message);
        }
        Ok(())
    }
}

impl<M: Message> Field for Option<M> {
    fn put(&self, tag: u32, out: &mut Vec<u8>) {
        if let Some(message) = self {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            put_bytes(out, tag, &bytes);
        }
    }
    fn merge(&mut self, value: Value<'_>) -> Result<(), Damage> {
        let Value::Bytes(bytes) = value else { return Err(WRONG_KIND) };
        *self = Some(M::decode(bytes)?);
        Ok(())
    }
}
