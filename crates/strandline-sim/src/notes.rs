//! What applications do to associations and no packet shows, for the checkers.

/// A command of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Note {
    /// A shared key became the active one.
    Active(u16),
    /// A shared key was deleted.
    Deleted(u16),
    /// A shared key was set.
    Set(u16),
    /// A dynamic stream was given up.
    Reset(u16),
}
