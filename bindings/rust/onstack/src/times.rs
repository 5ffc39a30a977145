// SPDX-License-Identifier: MIT OR Apache-2.0
//! When samples were taken, as profiles of ours have it: core/profile/store/stacks.h says how they are written.

use std::fmt;

use crate::wire::{put_bytes, put_number, Damage, Field, Reader, Value};

/// The times of a stack's samples.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Times(Vec<u8>);

/// A sample of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Microseconds since the profile's start.
    pub at: i64,
    /// Ticks that it stands for.
    pub weight: u64,
}

impl Times {
    /// Whether there are none: the profile's or this stack's were not kept.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each of them, in the order in which they came; nearly that of time.
    pub fn iter(&self) -> impl Iterator<Item = Moment> + '_ {
        let (mut reader, mut at) = (Reader(&self.0), 0i64);
        // What was read is sound.
        std::iter::from_fn(move || next(&mut reader, &mut at).ok().flatten())
    }

    pub(crate) fn from_moments(moments: impl Iterator<Item = Moment>) -> Self {
        let (mut bytes, mut before) = (Vec::new(), 0i64);
        for Moment { at, weight } in moments {
            let since = at.wrapping_sub(before);
            put_number(&mut bytes, ((since << 1 ^ since >> 63) as u64) << 1 | u64::from(weight != 1));
            if weight != 1 {
                put_number(&mut bytes, weight);
            }
            before = at;
        }
        Self(bytes)
    }

    /// Counted from a start so many microseconds earlier.
    pub(crate) fn shifted(&self, microseconds: i64) -> Self {
        Self::from_moments(self.iter().map(|moment| Moment { at: moment.at.saturating_add(microseconds), ..moment }))
    }
}

fn next(reader: &mut Reader<'_>, at: &mut i64) -> Result<Option<Moment>, Damage> {
    if reader.0.is_empty() {
        return Ok(None);
    }
    let number = reader.number()?;
    let zigzag = number >> 1;
    *at = at.wrapping_add((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64));
    let weight = if number & 1 == 0 { 1 } else { reader.number()? };
    Ok(Some(Moment { at: *at, weight }))
}

impl Field for Times {
    fn put(&self, tag: u32, out: &mut Vec<u8>) {
        if !self.is_empty() {
            put_bytes(out, tag, &self.0);
        }
    }
    fn merge(&mut self, value: Value<'_>) -> Result<(), Damage> {
        // What cannot be read is a field of that number by somebody else.
        let Value::Bytes(bytes) = value else { return Ok(()) };
        let (mut reader, mut at) = (Reader(bytes), 0);
        while let Ok(moment) = next(&mut reader, &mut at) {
            if moment.is_none() {
                self.0.extend_from_slice(bytes);
                break;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments() -> Vec<Moment> {
        let at = [5, 5, 10_000, 9_990, -3, i64::from(u32::MAX) * 1000];
        at.iter().zip(1..).map(|(&at, weight)| Moment { at, weight }).collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let times = Times::from_moments(moments().into_iter());
        assert_eq!(times.iter().collect::<Vec<_>>(), moments());
        let later = times.shifted(7);
        assert!(later.iter().zip(moments()).all(|(a, b)| a.at == b.at + 7 && a.weight == b.weight));
    }

    #[test]
    fn what_is_no_list_of_times_is_passed_over() {
        let mut times = Times::default();
        for bytes in [&[0x80][..], &[1], &[4, 0xff, 0xff]] {
            assert!(times.merge(Value::Bytes(bytes)).is_ok() && times.is_empty(), "{bytes:?}");
        }
        assert!(times.merge(Value::Number(1)).is_ok() && times.is_empty());
        assert_eq!((times.merge(Value::Bytes(&[4])), times.iter().count()), (Ok(()), 1));
    }
}
