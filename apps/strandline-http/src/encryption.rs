//! Options of encrypted SCTP (DTLS 1.3): of the side that listens, and of the side that connects.

use std::path::PathBuf;

use anyhow::Result;
use strandline::encryption::{Encryption, Options};

/// Encryption of SCTP, of servers and clients.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct SctpEncryption {
    /// SCTP: encrypt, and authenticate the peer by its key (DTLS 1.3). The peer must do so as well
    #[arg(long)]
    sctp_encrypt: bool,
    /// SCTP: file with this host's key, as strandline keygen makes it; implies --sctp-encrypt
    /// [default: ~/.config/strandline/key.pem]
    #[arg(long, value_name = "FILE")]
    sctp_key: Option<PathBuf>,
    /// SCTP: peers to trust: SHA256:FINGERPRINT, a file of known hosts or of authorities' certificates, first-use for
    /// unknown servers, anyone for clients without a key; repeatable; implies --sctp-encrypt
    /// [default: ~/.config/strandline/known_hosts]
    #[arg(long, value_name = "WHO")]
    sctp_trust: Vec<String>,
}

impl SctpEncryption {
    /// Returns how to encrypt, if it was asked for.
    ///
    /// # Errors
    /// If there is no key, or a file can't be read.
    pub(crate) fn load(&self) -> Result<Option<Encryption>> {
        load(self.sctp_encrypt, self.sctp_key.as_ref(), &self.sctp_trust)
    }
}

/// Encryption of SCTP, of proxies towards upstream servers.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct UpstreamEncryption {
    /// SCTP to upstream servers: encrypt, and authenticate them by their keys (DTLS 1.3)
    #[arg(long)]
    upstream_encrypt: bool,
    /// SCTP to upstream servers: file with this host's key; implies --upstream-encrypt
    /// [default: ~/.config/strandline/key.pem]
    #[arg(long, value_name = "FILE")]
    upstream_key: Option<PathBuf>,
    /// SCTP to upstream servers: whom to trust, as --sctp-trust; implies --upstream-encrypt
    /// [default: ~/.config/strandline/known_hosts]
    #[arg(long, value_name = "WHO")]
    upstream_trust: Vec<String>,
}

impl UpstreamEncryption {
    /// Returns how to encrypt, if it was asked for.
    ///
    /// # Errors
    /// If there is no key, or a file can't be read.
    pub(crate) fn load(&self) -> Result<Option<Encryption>> {
        load(self.upstream_encrypt, self.upstream_key.as_ref(), &self.upstream_trust)
    }
}

fn load(encrypt: bool, key: Option<&PathBuf>, trust: &[String]) -> Result<Option<Encryption>> {
    if !encrypt && key.is_none() && trust.is_empty() {
        return Ok(None);
    }
    Ok(Some(Options { key: key.cloned(), trust: trust.to_vec() }.load()?))
}
