//! Actions that an unknown chunk or parameter type asks of its receiver (RFC 9260 sections 3.2 and 3.2.1).

/// The action that the two highest bits of an unknown chunk or parameter type ask for.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Hash)]
pub enum UnrecognisedAction {
    /// `00`: discard this element and everything after it.
    Stop,
    /// `01`: as [`Stop`](Self::Stop), and report the element to the sender.
    StopAndReport,
    /// `10`: skip this element and process the ones after it.
    Skip,
    /// `11`: as [`Skip`](Self::Skip), and report the element to the sender.
    SkipAndReport,
}

impl UnrecognisedAction {
    /// Returns the action for an unknown chunk of type `kind`.
    #[must_use]
    pub const fn of(kind: u8) -> Self {
        match kind >> 6 {
            0 => Self::Stop,
            1 => Self::StopAndReport,
            2 => Self::Skip,
            _ => Self::SkipAndReport,
        }
    }

    /// Returns the action for an unknown parameter of type `kind`.
    #[must_use]
    pub const fn of_parameter(kind: u16) -> Self {
        let [high, _] = kind.to_be_bytes();
        Self::of(high)
    }

    /// Returns whether processing continues after the unknown element.
    #[must_use]
    pub const fn continues(self) -> bool {
        matches!(self, Self::Skip | Self::SkipAndReport)
    }

    /// Returns whether the unknown element is reported to the sender.
    #[must_use]
    pub const fn reports(self) -> bool {
        matches!(self, Self::StopAndReport | Self::SkipAndReport)
    }
}
