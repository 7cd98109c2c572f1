//! Keys and certificates of one run, for quinn on both sides.

use std::sync::Arc;

use anyhow::Context;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

fn provider() -> Arc<CryptoProvider> {
    let cipher_suites = vec![ring::cipher_suite::TLS13_AES_128_GCM_SHA256];
    Arc::new(CryptoProvider { cipher_suites, ..ring::default_provider() })
}

/// Returns the configuration of a server with a certificate made for this run; `alpn` is empty or a protocol's name.
pub fn server(alpn: &[u8]) -> anyhow::Result<quinn::ServerConfig> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())?;
    tls.alpn_protocols = names(alpn);
    let tls = QuicServerConfig::try_from(tls).context("TLS for QUIC")?;
    Ok(quinn::ServerConfig::with_crypto(Arc::new(tls)))
}

/// Returns the configuration of a client that accepts any certificate.
pub fn client(alpn: &[u8]) -> anyhow::Result<quinn::ClientConfig> {
    let mut tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider())))
        .with_no_client_auth();
    tls.alpn_protocols = names(alpn);
    let tls = QuicClientConfig::try_from(tls).context("TLS for QUIC")?;
    Ok(quinn::ClientConfig::new(Arc::new(tls)))
}

fn names(alpn: &[u8]) -> Vec<Vec<u8>> {
    if alpn.is_empty() { Vec::new() } else { vec![alpn.to_vec()] }
}

/// Accepts any certificate: both sides belong to one measurement on one machine.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("QUIC has no TLS 1.2".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
