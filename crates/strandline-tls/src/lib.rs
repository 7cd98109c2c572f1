//! Non-blocking connections with the same interface with and without TLS (RFC 8446, RFC 5246), and the
//! domains that certificates prove (RFC 5922).
//!
//! [`Wire`] is a connection over tokio. [`ServerTls`] and [`ClientTls`] hold certificates and trusted
//! authorities. [`AcceptErrors`] decides how an accept loop handles its errors.
#![forbid(unsafe_code)]

mod accepting;
mod database;
mod identity;
mod settings;
mod verify;
mod wire;

pub use rustls_pki_types::CertificateDer;

pub use accepting::{AcceptError, AcceptErrors, LogLimit, is_exhausted, is_fatal};
pub use database::{DatabaseStream, DatabaseTls, Verify};
pub use identity::{domains, is_domain, proves_address, validity};
pub use settings::{ClientCertificates, ClientTls, Own, OwnFiles, Pem, ServerTls, TlsError};
pub use wire::Wire;
