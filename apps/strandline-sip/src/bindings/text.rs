//! Texts of bindings. Short ones are stored inline, so that a lookup touches fewer cache lines.

use core::ops::Deref;

/// Maximum length of an inline text, in bytes.
const INLINE: usize = 46;

/// Rarely changed bytes, usually few.
#[derive(Clone)]
pub struct Text(Place);

#[derive(Clone)]
enum Place {
    Here { len: u8, bytes: [u8; INLINE] },
    Away(Box<[u8]>),
}

impl From<&[u8]> for Text {
    fn from(text: &[u8]) -> Self {
        let mut bytes = [0; INLINE];
        match bytes.get_mut(..text.len()) {
            Some(place) => {
                place.copy_from_slice(text);
                Self(Place::Here { len: text.len() as u8, bytes })
            }
            None => Self(Place::Away(text.into())),
        }
    }
}

impl Deref for Text {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Place::Here { len, bytes } => bytes.get(..usize::from(*len)).unwrap_or(&[]),
            Place::Away(bytes) => bytes,
        }
    }
}

impl core::fmt::Debug for Text {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Text {}

#[cfg(test)]
mod tests;
