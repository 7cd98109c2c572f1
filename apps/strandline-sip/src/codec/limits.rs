//! How large a message may be.

/// Limits on what a peer may send. What is over them is answered with 513, as far as it can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Header lines of a message; folded ones count once.
    pub header_lines_max: usize,
    /// Bytes of the first line and all headers.
    pub header_bytes_max: usize,
    /// Bytes of the body, by Content-Length.
    pub body_bytes_max: usize,
}

impl Default for Limits {
    /// 256 lines, 64 KiB of headers, 64 KiB of body: what fits in a datagram fits.
    fn default() -> Self {
        Self { header_lines_max: 256, header_bytes_max: 65_536, body_bytes_max: 65_536 }
    }
}
