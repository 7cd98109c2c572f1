//! Methods shared by all views that keep a list in its original text, in a field `raw`.

/// Implements `as_bytes`, documented with `$bytes_are`, and `is_empty`.
macro_rules! as_sent {
    ($View:ident, $bytes_are:literal) => {
        impl<'a> $View<'a> {
            #[doc = $bytes_are]
            #[must_use]
            pub const fn as_bytes(&self) -> &'a [u8] {
                self.raw
            }

            /// Returns true if the list is empty.
            #[must_use]
            pub const fn is_empty(&self) -> bool {
                self.raw.is_empty()
            }
        }
    };
}

pub(crate) use as_sent;
