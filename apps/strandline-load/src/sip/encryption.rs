//! Encrypted SCTP of the phones.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use strandline::encryption::{Encryption, Options};

/// How SCTP is encrypted.
#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize)]
pub struct SctpEncryption {
    /// SCTP: encrypt, and authenticate the server by its key (DTLS 1.3)
    #[arg(long, conflicts_with = "serve")]
    sctp_encrypt: bool,
    /// SCTP: file with the phones' key; implies --sctp-encrypt [default: ~/.config/strandline/key.pem]
    #[arg(long, value_name = "FILE", conflicts_with = "serve")]
    sctp_key: Option<PathBuf>,
    /// SCTP: servers to trust, SHA256:FINGERPRINT or a file of known hosts or authorities' certificates; implies
    /// --sctp-encrypt [default: ~/.config/strandline/known_hosts]
    #[arg(long, value_name = "WHO", conflicts_with = "serve")]
    sctp_trust: Vec<String>,
}

impl SctpEncryption {
    /// Returns how to encrypt, if it was asked for.
    ///
    /// # Errors
    /// If a file is missing or can't be read, or the transport can't be encrypted.
    pub(in crate::sip) fn load(&self, is_sctp_in_udp: bool) -> Result<Option<Encryption>> {
        if !self.sctp_encrypt && self.sctp_key.is_none() && self.sctp_trust.is_empty() {
            return Ok(None);
        }
        ensure!(is_sctp_in_udp, "--sctp-encrypt requires --transport sctp over UDP (--encapsulation PORT)");
        Ok(Some(Options { key: self.sctp_key.clone(), trust: self.sctp_trust.clone() }.load()?))
    }
}
