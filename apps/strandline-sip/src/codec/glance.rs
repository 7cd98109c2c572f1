//! Looks at headers whose values are neither parsed nor checked, or were parsed before.

use super::header::via::Via;
use super::message::Message;
use super::name::HeaderName;

impl<'a> Message<'a> {
    /// The value of the first line of a header as it was sent, with the white space that follows it; empty if there is none.
    pub(crate) fn first_value(&self, name: HeaderName) -> &'a [u8] {
        let line = self.index.first(name).and_then(|number| self.index.lines().get(number));
        line.and_then(|line| self.bytes.get(line.value as usize..line.end as usize)).unwrap_or(&[])
    }

    /// Is `top`, the topmost Via, certainly the only one? If not, that is to be found out by parsing.
    pub(crate) fn has_only(&self, top: &Via<'_>) -> bool {
        let mut lines = self.lines(HeaderName::Via);
        match (lines.next(), lines.next()) {
            // Nothing follows its parameters.
            (Some(line), None) => line.value().as_ptr_range().end == top.params.as_bytes().as_ptr_range().end,
            _ => false,
        }
    }

    /// May a Via below the topmost have the parameter `oc` (RFC 7339)? No if these letters stand in none of their lines.
    pub(crate) fn may_have_oc_below(&self) -> bool {
        let is = |byte: &u8, letter| u8::from(byte | 0x20 == letter);
        // All bytes without a way out in their midst: so it is many at a time.
        let holds = |value: &[u8]| {
            let pairs = value.iter().zip(value.get(1..).unwrap_or(&[]));
            pairs.fold(0, |found, (o, c)| found | (is(o, b'o') & is(c, b'c'))) != 0
        };
        let mut lines = self.lines(HeaderName::Via);
        // Without a comma the first line has the topmost only.
        let first = lines.next().filter(|line| line.value().contains(&b','));
        first.into_iter().chain(lines).any(|line| holds(line.value()))
    }
}

#[cfg(test)]
mod tests;
