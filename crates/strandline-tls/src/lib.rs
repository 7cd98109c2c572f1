//! Connections that look the same with and without TLS (RFC 8446, RFC 5246), read and written without waiting; and the
//! domains that certificates prove (RFC 5922).
//!
//! [`Wire`] is a connection of tokio's. [`ServerTls`] and [`ClientTls`] hold certificates and what is trusted. [`AcceptErrors`]
//! tells an accept loop what to do about its errors.
#![forbid(unsafe_code)]

mod accepting;
mod identity;
mod settings;
mod verify;
mod wire;

pub use rustls_pki_types::CertificateDer;

pub use accepting::{AcceptError, AcceptErrors, is_exhausted};
pub use identity::{domains, is_domain, proves_address, validity};
pub use settings::{ClientCertificates, ClientTls, Own, OwnFiles, Pem, ServerTls, TlsError};
pub use wire::Wire;
