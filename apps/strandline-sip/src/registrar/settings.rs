//! Settings of the registrar.

/// Limits and defaults for bindings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegistrarSettings {
    /// Lifetime of a binding for which the phone requests none, in seconds.
    pub expires_default_secs: u32,
    /// Shortest lifetime in seconds; less is rejected with 423.
    pub expires_min_secs: u32,
    /// Longest lifetime in seconds; more is reduced to this.
    pub expires_max_secs: u32,
    /// Maximum number of bindings of one user.
    pub contacts_max: usize,
    /// Whether, at that limit, the bindings that expire first make room for new ones. Otherwise new bindings
    /// are rejected.
    pub replace_oldest: bool,
    /// Maximum size of a contact with its parameters, Path and Call-ID, in bytes.
    pub contact_bytes_max: usize,
    /// Whether to support flows (RFC 5626), and to bind contacts behind NATs to the flow over which they
    /// register.
    pub outbound: bool,
    /// Whether to give GRUUs to phones that ask for them (RFC 5627).
    pub gruu: bool,
}

impl Default for RegistrarSettings {
    /// One hour by default, between one minute and one day; 10 contacts of 2,048 bytes.
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
