//! Verification of servers' certificates: their chains, and the SIP domains that they prove (RFC 5922 section
//! 7.3).

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::identity::{domains, is_domain};

/// Verifies that a server has the key of its certificate, and that the certificate proves what is required.
#[derive(Debug)]
pub(crate) struct Verifier {
    provider: Arc<CryptoProvider>,
    required: Required,
}

/// What a server's certificate must prove.
#[derive(Debug)]
enum Required {
    /// Nothing.
    Nothing,
    /// It chains to one of these authorities, for any host.
    Authority(Arc<RootCertStore>),
    /// It chains to one of these authorities and proves the requested name as a SIP domain, or as an address
    /// if the requested name is one.
    SipIdentity { roots: Arc<RootCertStore>, addresses: Arc<WebPkiServerVerifier> },
}

impl Verifier {
    /// Accepts any certificate.
    pub(crate) fn of_nothing(provider: Arc<CryptoProvider>) -> Arc<Self> {
        Arc::new(Self { provider, required: Required::Nothing })
    }

    /// Accepts certificates that chain to one of these authorities, for any host.
    pub(crate) fn of_authority(roots: RootCertStore, provider: Arc<CryptoProvider>) -> Arc<Self> {
        Arc::new(Self { provider, required: Required::Authority(Arc::new(roots)) })
    }

    /// Accepts certificates that chain to one of these authorities and prove the requested name as a SIP
    /// domain, or as an address if the requested name is one.
    ///
    /// # Errors
    /// If there are no authorities.
    pub(crate) fn of_sip_identity(
        roots: RootCertStore,
        provider: Arc<CryptoProvider>,
    ) -> Result<Arc<Self>, VerifierBuilderError> {
        let roots = Arc::new(roots);
        let builder = WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider));
        let required = Required::SipIdentity { roots, addresses: builder.build()? };
        Ok(Arc::new(Self { provider, required }))
    }

    fn verify_chain(
        &self,
        roots: &RootCertStore,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, algorithms)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match (&self.required, server_name) {
            (Required::Nothing, _) => {}
            (Required::Authority(roots), _) => self.verify_chain(roots, end_entity, intermediates, now)?,
            (Required::SipIdentity { roots, .. }, ServerName::DnsName(name)) => {
                self.verify_chain(roots, end_entity, intermediates, now)?;
                let presented = domains(end_entity);
                if !presented.iter().any(|domain| is_domain(domain, name.as_ref())) {
                    let expected = server_name.to_owned();
                    return Err(CertificateError::NotValidForNameContext { expected, presented }.into());
                }
            }
            (Required::SipIdentity { addresses, .. }, _) => {
                return addresses.verify_server_cert(
                    end_entity,
                    intermediates,
                    server_name,
                    ocsp_response,
                    now,
                );
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
