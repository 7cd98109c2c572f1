//! What an unknown type asks of its receiver (RFC 9260 sections 3.2 and 3.2.1).

/// The two highest bits of a chunk type or parameter type say what to do when the type is not known.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Hash)]
pub enum UnrecognisedAction {
    /// `00`: discard this and everything after it.
    Stop,
    /// `01`: as [`Stop`](Self::Stop), and report it.
    StopAndReport,
    /// `10`: go on with what follows.
    Skip,
    /// `11`: as [`Skip`](Self::Skip), and report it.
    SkipAndReport,
}

impl UnrecognisedAction {
    /// For a chunk of type `kind`.
    #[must_use]
    pub const fn of(kind: u8) -> Self {
        match kind >> 6 {
            0 => Self::Stop,
            1 => Self::StopAndReport,
            2 => Self::Skip,
            _ => Self::SkipAndReport,
        }
    }

    /// For a parameter of type `kind`.
    #[must_use]
    pub const fn of_parameter(kind: u16) -> Self {
        let [high, _] = kind.to_be_bytes();
        Self::of(high)
    }

    /// Does processing go on after the unknown element?
    #[must_use]
    pub const fn continues(self) -> bool {
        matches!(self, Self::Skip | Self::SkipAndReport)
    }

    /// Is the sender told?
    #[must_use]
    pub const fn reports(self) -> bool {
        matches!(self, Self::StopAndReport | Self::SkipAndReport)
    }
}
