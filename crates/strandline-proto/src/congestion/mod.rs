//! Congestion control as a choice.
/// Which controller a new path gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Algorithm {
    /// RFC 9260 section 7.2: slow start and congestion avoidance with byte counting.
    #[default]
    Rfc9260,
}
