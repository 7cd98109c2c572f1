//! Cheap checks of headers that parse nothing, or use what was parsed before.

use super::header::via::Via;
use super::message::Message;
use super::name::HeaderName;

impl<'a> Message<'a> {
    /// The value of a header's first line as it was sent, with trailing white space; empty if the header is
    /// missing.
    pub(crate) fn first_value(&self, name: HeaderName) -> &'a [u8] {
        let line = self.index.first(name).and_then(|number| self.index.lines().get(number));
        line.and_then(|line| self.bytes.get(line.value as usize..line.end as usize)).unwrap_or(&[])
    }

    /// Returns true if `top`, the topmost Via, is certainly the only one. If it returns false, only parsing
    /// can tell.
    pub(crate) fn has_only(&self, top: &Via<'_>) -> bool {
        let mut lines = self.lines(HeaderName::Via);
        match (lines.next(), lines.next()) {
            // Nothing follows the parameters.
            (Some(line), None) => line.value().as_ptr_range().end == top.params.as_bytes().as_ptr_range().end,
            _ => false,
        }
    }

    /// Returns false if no Via below the topmost can have the parameter `oc` (RFC 7339), because no line
    /// contains these letters.
    pub(crate) fn may_have_oc_below(&self) -> bool {
        let is = |byte: &u8, letter| u8::from(byte | 0x20 == letter);
        // The loop has no early exit, so that the compiler can vectorise it.
        let holds = |value: &[u8]| {
            let pairs = value.iter().zip(value.get(1..).unwrap_or(&[]));
            pairs.fold(0, |found, (o, c)| found | (is(o, b'o') & is(c, b'c'))) != 0
        };
        let mut lines = self.lines(HeaderName::Via);
        // Without a comma, the first line holds only the topmost Via.
        let first = lines.next().filter(|line| line.value().contains(&b','));
        first.into_iter().chain(lines).any(|line| holds(line.value()))
    }
}

#[cfg(test)]
mod tests;
