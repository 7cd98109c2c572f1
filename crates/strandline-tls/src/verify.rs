//! Verification of a server's identity (RFC 5922 section 7.3).

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::VerifierBuilderError,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::identity::{domains, is_domain};

/// Accepts certificates that chain to a trusted authority and prove the requested name as a SIP domain, or as
/// an address if the requested name is one.
#[derive(Debug)]
pub(crate) struct SipVerifier {
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
    usual: Arc<WebPkiServerVerifier>,
}

impl SipVerifier {
    pub(crate) fn new(
        roots: RootCertStore,
        provider: Arc<CryptoProvider>,
    ) -> Result<Arc<Self>, VerifierBuilderError> {
        let roots = Arc::new(roots);
        let builder = WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider));
        Ok(Arc::new(Self { roots, provider, usual: builder.build()? }))
    }
}

impl ServerCertVerifier for SipVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let ServerName::DnsName(name) = server_name else {
            return self.usual.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        };
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&certificate, &self.roots, intermediates, now, algorithms)?;
        let proved = domains(end_entity);
        if proved.iter().any(|proved| is_domain(proved, name.as_ref())) {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::NotValidForNameContext { expected: server_name.to_owned(), presented: proved }
            .into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

/// Accepts any certificate whose key the server has.
#[derive(Debug)]
pub(crate) struct AnyVerifier(pub(crate) Arc<CryptoProvider>);

impl ServerCertVerifier for AnyVerifier {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
