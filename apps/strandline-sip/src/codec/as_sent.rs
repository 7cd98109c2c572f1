//! What all views of a list have in common that keep it as it was sent, in a field `raw`.

/// Gives a view `as_bytes`, with this line of documentation, and `is_empty`.
macro_rules! as_sent {
    ($View:ident, $bytes_are:literal) => {
        impl<'a> $View<'a> {
            #[doc = $bytes_are]
            #[must_use]
            pub const fn as_bytes(&self) -> &'a [u8] {
                self.raw
            }

            /// There is none.
            #[must_use]
            pub const fn is_empty(&self) -> bool {
                self.raw.is_empty()
            }
        }
    };
}

pub(crate) use as_sent;
