//! What a registrar grants.

/// Limits and defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegistrarSettings {
    /// How long a binding lasts if the phone doesn't say.
    pub expires_default_secs: u32,
    /// A shorter time is refused with 423.
    pub expires_min_secs: u32,
    /// A longer time is cut to this.
    pub expires_max_secs: u32,
    /// Bindings of one user.
    pub contacts_max: usize,
    /// At that limit the bindings that were to end first make room for new ones; otherwise these are refused.
    pub replace_oldest: bool,
    /// Bytes of one contact with its parameters, Path and Call-ID: what is kept of it.
    pub contact_bytes_max: usize,
    /// Takes flows as RFC 5626 says, and binds contacts behind NATs to the flow that they came over.
    pub outbound: bool,
    /// Gives GRUUs to phones that ask for them (RFC 5627).
    pub gruu: bool,
}

impl Default for RegistrarSettings {
    /// An hour, at least a minute, at most a day; 10 contacts of 2,048 bytes.
    fn default() -> Self {
        Self {
            expires_default_secs: 3600,
            expires_min_secs: 60,
            expires_max_secs: 86_400,
            contacts_max: 10,
            replace_oldest: false,
            contact_bytes_max: 2048,
            outbound: true,
            gruu: true,
        }
    }
}
