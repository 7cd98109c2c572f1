//! Limits on the size of a message.

/// Limits on the messages of a peer. A request that exceeds one gets a 513 response where possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of header lines. A folded header counts once.
    pub header_lines_max: usize,
    /// Maximum size of the first line and all headers, in bytes.
    pub header_bytes_max: usize,
    /// Maximum size of the body, in bytes, as given by Content-Length.
    pub body_bytes_max: usize,
}

impl Default for Limits {
    /// 256 lines, 64 KiB of headers, 64 KiB of body: every message that fits into a datagram is accepted.
    fn default() -> Self {
        Self { header_lines_max: 256, header_bytes_max: 65_536, body_bytes_max: 65_536 }
    }
}
